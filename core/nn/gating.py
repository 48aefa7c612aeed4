"""Gated SiLU feed-forward (arXiv 2002.05202)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.nn.products import Matrix, linear
from personaplex.core.nn.rows import PerRow


def gated_feedforward(x: Tensor, linear_in: Tensor | Matrix, linear_out: Tensor | Matrix) -> Tensor:
    """[B, T, dim] -> [B, T, dim]: silu(first half) * second half of x · linear_inᵀ [2f, dim], then · linear_outᵀ."""
    return linear(_gate(linear(x, linear_in)), linear_out)


@PerRow
def _gate(x: Tensor) -> Tensor:
    """[B, T, 2f] -> [B, T, f]: silu(first half) * second half."""
    gate, value = x.chunk(2, dim=-1)
    return _silu(gate) * value


def _silu(x: Tensor) -> Tensor:
    """x · sigmoid(x). A CPU's `F.silu` rounds the end of a thread's share of the values otherwise; `exp` does not."""
    if x.device.type != "cpu":
        return F.silu(x)
    wide = x.float()
    return (wide / (1 + torch.exp(-wide))).to(x.dtype)
