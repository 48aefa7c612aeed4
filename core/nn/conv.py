"""Causal convolutions that carry their past from chunk to chunk, so that chunked and whole runs are one function."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CausalConv1d(nn.Module):
    """A convolution padded on the left, once, at the stream's start, by kernel - stride.

    Its state is that padding: the last kernel - stride inputs, [B, in_channels, kernel - stride].
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.stride = stride
        self.past = kernel - stride

    def zeros(self, rows: int) -> Tensor:
        """The state before the first chunk."""
        return self.weight.new_zeros(rows, self.weight.shape[1], self.past)

    def forward(self, x: Tensor, past: Tensor, active: Tensor) -> Tensor:
        """[B, in_channels, T] -> [B, out_channels, T / stride], T a multiple of the stride; `past` moves on."""
        x = torch.cat([past, x], dim=-1)
        if self.past:
            past.copy_(torch.where(active[:, None, None], x[..., -self.past :], past))
        return F.conv1d(x, self.weight, self.bias, self.stride)


class CausalConvTranspose1d(nn.Module):
    """A transposed convolution whose last kernel - stride outputs wait to be added to the next chunk's first.

    Its state is those outputs, without bias: [B, out_channels, kernel - stride].
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: int, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels // groups, kernel))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.out_channels = out_channels
        self.stride = stride
        self.groups = groups
        self.overlap = kernel - stride

    def zeros(self, rows: int) -> Tensor:
        """The state before the first chunk."""
        return self.weight.new_zeros(rows, self.out_channels, self.overlap)

    def forward(self, x: Tensor, waiting: Tensor, active: Tensor) -> Tensor:
        """[B, in_channels, T] -> [B, out_channels, T * stride]; `waiting` moves on."""
        y = F.conv_transpose1d(x, self.weight, None, self.stride, groups=self.groups)
        y[..., : self.overlap] += waiting
        length = x.shape[-1] * self.stride
        waiting.copy_(torch.where(active[:, None, None], y[..., length:], waiting))
        whole = y[..., :length]
        return whole if self.bias is None else whole + self.bias[:, None]
