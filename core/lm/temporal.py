"""The temporal transformer: one column of tokens in, one vector out, a cache behind it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from personaplex.core.config import LMConfig
from personaplex.core.nn.attention import attend_chunk, chunk_mask
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.gating import gated_feedforward
from personaplex.core.nn.int8 import Int8Matrix
from personaplex.core.nn.norm import RMSNorm
from personaplex.core.nn.packed import StepAttention, heads_of
from personaplex.core.nn.products import Packable, linear
from personaplex.core.nn.rotary import Rotation

Attend = Callable[[Tensor, int], Tensor]
"""Of a layer's packed query, key and value [B, T, 3 · dim], and its number -> [B, T, dim]."""


class TemporalLayer(Packable):
    """x + attention(norm1(x)), then x + feed-forward(norm2(x)); each sum is left to the norm behind it."""

    matrices = ("in_proj", "out_proj", "linear_in", "linear_out")

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        dim = config.dim
        self.norm1 = RMSNorm(dim)
        self.norm2 = RMSNorm(dim)
        self.in_proj = nn.Parameter(torch.empty(3 * dim, dim))
        self.out_proj = nn.Parameter(torch.empty(dim, dim))
        self.linear_in = nn.Parameter(torch.empty(2 * config.feedforward, dim))
        self.linear_out = nn.Parameter(torch.empty(dim, config.feedforward))

    def forward(self, x: Tensor, delta: Tensor | None, attend: Attend, layer: int) -> tuple[Tensor, Tensor]:
        """[B, T, dim] and what is to be added to it -> the same of the layer's output."""
        x, normed = self.norm1.after(x, delta)
        x, normed = self.norm2.after(x, linear(attend(linear(normed, self.in_proj), layer), self.out_proj))
        return x, gated_feedforward(normed, self.linear_in, self.linear_out)


class TemporalTransformer(nn.Module):
    """The stack and its last norm."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(TemporalLayer(config) for _ in range(config.num_layers))
        self.out_norm = RMSNorm(config.dim)

    def hold_int8(self) -> None:
        """Make the layers' weights int8 ones; again does nothing."""
        for layer in self.layers:
            for name in TemporalLayer.matrices:
                weight = getattr(layer, name)
                if isinstance(weight, nn.Parameter):
                    delattr(layer, name)
                    setattr(layer, name, Int8Matrix.of(weight))

    @property
    def is_int8(self) -> bool:
        """Whether the layers' weights are in int8."""
        return isinstance(self.layers[0].in_proj, Int8Matrix)

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
        x, delta = self._layers(x, StepAttention(cache, rotation))
        return self.out_norm.after(x, delta)[1]

    def prefill(self, x: Tensor, cache: KVCache) -> None:
        """Write a chunk of positions [B, T, dim] of all rows into the cache."""
        chunk, active = x.shape[1], [True] * len(x)
        mask = chunk_mask(cache, chunk, self.config.window, step=1)
        positions = cache.length[:, None] + torch.arange(chunk, device=x.device)
        rotation = Rotation.at(positions, self.config.head_dim)

        def attend(packed: Tensor, layer: int) -> Tensor:
            query, key, value = heads_of(packed, self.config.num_heads)
            seen = attend_chunk(rotation(query), rotation(key), value, cache, layer, mask, active)
            return seen.transpose(1, 2).flatten(2)

        self._layers(x, attend)
        cache.advance(chunk, active)

    def _layers(self, x: Tensor, attend: Attend) -> tuple[Tensor, Tensor | None]:
        """Through the stack: the last layer's output, its last sum not yet made."""
        delta = None
        for index, layer in enumerate(self.layers):
            x, delta = layer(x, delta, attend, index)
        return x, delta
