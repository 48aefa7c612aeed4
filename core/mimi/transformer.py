"""The codec's transformers: pre-norm, GELU, layer scale, windowed attention over 25 Hz latents."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import MimiConfig
from personaplex.core.nn.attention import attend_chunk, chunk_mask
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.rotary import Rotation

LATENTS_PER_FRAME = 2


class MimiLayer(nn.Module):
    """x + scale1 · attention(norm1(x)), then x + scale2 · feed-forward(norm2(x))."""

    def __init__(self, dim: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, eps=1e-5)
        self.norm2 = nn.LayerNorm(dim, eps=1e-5)
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.linear1 = nn.Linear(dim, feedforward, bias=False)
        self.linear2 = nn.Linear(feedforward, dim, bias=False)
        self.scale1 = nn.Parameter(torch.empty(dim))
        self.scale2 = nn.Parameter(torch.empty(dim))

    def forward(
        self, x: Tensor, rotation: Rotation, cache: KVCache, layer: int, mask: Tensor, active: Sequence[bool]
    ) -> Tensor:
        """[B, T, dim] -> [B, T, dim]."""
        packed = self.in_proj(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        seen = attend_chunk(rotation(query), rotation(key), value, cache, layer, mask, active)
        x = x + self.scale1 * self.out_proj(seen.transpose(1, 2).flatten(2))
        out: Tensor = x + self.scale2 * self.linear2(F.gelu(self.linear1(self.norm2(x))))
        return out


class MimiTransformer(nn.Module):
    """A stack of layers over latents in channel-first layout."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        shape = config.transformer
        self.head_dim = config.dim // shape.num_heads
        self.heads = shape.num_heads
        self.window = shape.context - 1
        self.layers = nn.ModuleList(
            MimiLayer(config.dim, shape.num_heads, shape.feedforward) for _ in range(shape.num_layers)
        )

    def zeros(self, rows: int, device: torch.device) -> KVCache:
        """The cache before the first chunk."""
        return KVCache.zeros(len(self.layers), rows, self.heads, self.window, self.head_dim, device, torch.float32)

    def forward(self, x: Tensor, cache: KVCache, active: Sequence[bool]) -> Tensor:
        """[B, dim, T] -> [B, dim, T]; a chunk starts at an even latent, as whole frames do."""
        steps = x.shape[-1]
        mask = chunk_mask(cache, steps, self.window, LATENTS_PER_FRAME)
        positions = cache.length[:, None] + torch.arange(steps, device=x.device)
        rotation = Rotation.at(positions, self.head_dim)
        x = x.transpose(1, 2)
        for index, layer in enumerate(self.layers):
            x = layer(x, rotation, cache, index, mask, active)
        cache.advance(steps, active)
        return x.transpose(1, 2)
