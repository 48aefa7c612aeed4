"""Gated SiLU feed-forward (arXiv 2002.05202)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.nn import fused
from personaplex.core.nn.products import linear
from personaplex.core.nn.rows import PerRow


def gated_feedforward(x: Tensor, linear_in: Tensor | nn.Module, linear_out: Tensor | nn.Module) -> Tensor:
    """[B, T, dim] -> [B, T, dim]: silu(first half) * second half of x · linear_inᵀ [2f, dim], then · linear_outᵀ."""
    return linear(_gated(linear(x, linear_in)), linear_out)


def _gated(projected: Tensor) -> Tensor:
    if fused.is_used(projected.device):
        from personaplex.core.nn.kernels import triton_rows  # needs Triton, so only where it is used

        return triton_rows.gate(projected)
    return _gate(projected)


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
