"""Root-mean-square norm, computed in float32 whatever the input's type."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x · (alpha · rsqrt(1e-8 + mean(x²))), cast back to x's type at the end (arXiv 1910.07467)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, dim] -> the same shape and type."""
        wide = x.float()
        scale = self.alpha.float() * torch.rsqrt(1e-8 + wide.square().mean(dim=-1, keepdim=True))
        return (wide * scale).to(x.dtype)
