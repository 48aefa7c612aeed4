"""Rotary position embedding on interleaved pairs of the whole head, period 10,000 (arXiv 2104.09864)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.nn.rows import PerRow

PERIOD = 10_000.0

_cos, _sin = PerRow(torch.cos), PerRow(torch.sin)


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines of some positions, float32 [B, 1, T, head_dim / 2]; shared by all layers of a stack."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def at(cls, positions: Tensor, head_dim: int) -> "Rotation":
        """The rotation of integer `positions` [B, T]."""
        pairs = torch.arange(head_dim // 2, device=positions.device, dtype=torch.float32)
        frequencies = torch.exp(pairs * (-math.log(PERIOD) * 2 / head_dim))
        angles = positions[:, None, :, None].float() * frequencies
        return cls(_cos(angles), _sin(angles))

    def __call__(self, x: Tensor) -> Tensor:
        """Turn queries or keys [B, H, T, head_dim]; in float32, returned in x's type."""
        pairs = x.float().unflatten(-1, (-1, 2))
        real, imaginary = pairs[..., 0], pairs[..., 1]
        turned = (real * self.cos - imaginary * self.sin, real * self.sin + imaginary * self.cos)
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)
