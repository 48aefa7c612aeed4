"""Root-mean-square norm, computed in float32 whatever the input's type."""

import torch
from torch import Tensor, nn

from personaplex.core.nn.rows import PerRow


class RMSNorm(nn.Module):
    """x · (alpha · rsqrt(1e-8 + mean(x²))), cast back to x's type at the end (arXiv 1910.07467)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, dim] -> the same shape and type."""
        wide = x.float()
        return (wide * (self.alpha.float() * _scale(wide))).to(x.dtype)


@PerRow
def _scale(x: Tensor) -> Tensor:
    """One over the root mean square of each vector: [B, T, dim] -> [B, T, 1]."""
    return torch.rsqrt(1e-8 + x.square().mean(dim=-1, keepdim=True))
