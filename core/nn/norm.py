"""Root-mean-square norm, computed in float32 whatever the input's type."""

import torch
from torch import Tensor, nn

from personaplex.core.nn import fused
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

    def after(self, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        """x + delta, or x where that is None, and its norm: both of the shape of `x` [B, T, dim]."""
        if fused.is_used(x.device):
            from personaplex.core.nn.kernels import triton_rows  # needs Triton, so only where it is used

            return triton_rows.add_norm(x, delta, self.alpha)
        total = x if delta is None else x + delta
        return total, self(total)


@PerRow
def _scale(x: Tensor) -> Tensor:
    """One over the root mean square of each vector: [B, T, dim] -> [B, T, 1]."""
    return torch.rsqrt(1e-8 + x.square().mean(dim=-1, keepdim=True))
