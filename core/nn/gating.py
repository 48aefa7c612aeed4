"""Gated SiLU feed-forward (arXiv 2002.05202)."""

from torch import Tensor
from torch.nn import functional as F

from personaplex.core.nn.linear import linear


def gated_feedforward(x: Tensor, linear_in: Tensor, linear_out: Tensor) -> Tensor:
    """[B, T, dim] -> [B, T, dim]: silu(first half) * second half of x · linear_inᵀ [2f, dim], then · linear_outᵀ."""
    gate, value = linear(x, linear_in).chunk(2, dim=-1)
    return linear(F.silu(gate) * value, linear_out)
