"""The temporal transformer: one column of tokens in, one vector out, a cache behind it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from personaplex.core.config import LMConfig
from personaplex.core.nn.attention import attend_chunk, attend_step, chunk_mask
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.gating import gated_feedforward
from personaplex.core.nn.norm import RMSNorm
from personaplex.core.nn.products import Packable, linear
from personaplex.core.nn.rotary import Rotation

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class TemporalLayer(Packable):
    """x + attention(norm1(x)), then x + feed-forward(norm2(x))."""

    matrices = ("in_proj", "out_proj", "linear_in", "linear_out")

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.num_heads
        self.norm1 = RMSNorm(dim)
        self.norm2 = RMSNorm(dim)
        self.in_proj = nn.Parameter(torch.empty(3 * dim, dim))
        self.out_proj = nn.Parameter(torch.empty(dim, dim))
        self.linear_in = nn.Parameter(torch.empty(2 * config.feedforward, dim))
        self.linear_out = nn.Parameter(torch.empty(dim, config.feedforward))

    def forward(self, x: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """[B, T, dim] -> [B, T, dim]; `attend` takes query, key and value [B, H, T, head_dim]."""
        packed = linear(self.norm1(x), self.in_proj).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        seen = attend(rotation(query), rotation(key), value)
        x = x + linear(seen.transpose(1, 2).flatten(2), self.out_proj)
        return x + gated_feedforward(self.norm2(x), self.linear_in, self.linear_out)


class TemporalTransformer(nn.Module):
    """The stack and its last norm."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(TemporalLayer(config) for _ in range(config.num_layers))
        self.out_norm = RMSNorm(config.dim)

    def zeros(self, rows: int, positions: int) -> KVCache:
        """An empty cache of `rows` rows, long enough for calls of `positions` positions (at most the window)."""
        config, alpha = self.config, self.out_norm.alpha
        slots = min(positions, config.window)
        return KVCache.zeros(
            config.num_layers, rows, config.num_heads, slots, config.head_dim, alpha.device, alpha.dtype
        )

    def step(self, x: Tensor, cache: KVCache) -> Tensor:
        """One position of every row: [B, 1, dim] -> normed [B, 1, dim].

        The caller advances the cache in the rows that are in use.
        """
        rotation = Rotation.at(cache.length[:, None], self.config.head_dim)
        for index, layer in enumerate(self.layers):

            def attend(query: Tensor, key: Tensor, value: Tensor, index: int = index) -> Tensor:
                return attend_step(query, key, value, cache, index)

            x = layer(x, rotation, attend)
        out: Tensor = self.out_norm(x)
        return out

    def prefill(self, x: Tensor, cache: KVCache) -> None:
        """Write a chunk of positions [B, T, dim] of all rows into the cache."""
        chunk, active = x.shape[1], [True] * len(x)
        mask = chunk_mask(cache, chunk, self.config.window, step=1)
        positions = cache.length[:, None] + torch.arange(chunk, device=x.device)
        rotation = Rotation.at(positions, self.config.head_dim)
        for index, layer in enumerate(self.layers):

            def attend(query: Tensor, key: Tensor, value: Tensor, index: int = index) -> Tensor:
                return attend_chunk(query, key, value, cache, index, mask, active)

            x = layer(x, rotation, attend)
        cache.advance(chunk, active)
