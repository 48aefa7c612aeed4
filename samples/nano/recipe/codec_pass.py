"""The codec as one stateless pass for training: the layers of `core.mimi`, channels last, as matrix products.

A CPU multiplies bfloat16 matrices several times faster than it convolves, and an autograd graph can't hold states that
are changed in place. It works on the parameters of a `Mimi`, so what is learned is that module's. A test holds it equal
to the streaming pass.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.mimi.codec import Mimi
from personaplex.core.mimi.seanet import ResidualBlock, SEANetDecoder, SEANetEncoder
from personaplex.core.mimi.transformer import LATENTS_PER_FRAME, MimiTransformer
from personaplex.core.nn.conv import CausalConv1d, CausalConvTranspose1d
from personaplex.core.nn.rotary import Rotation


def convolve(x: Tensor, conv: CausalConv1d, *, repeat_first: bool = False) -> Tensor:
    """[B, T, in] -> [B, T / stride, out] of a whole signal, zeros (or the first value) to its left."""
    out_channels = len(conv.weight)
    weight = conv.weight.transpose(1, 2)  # [out, kernel, in]
    if conv.past:
        left = x[:, :1].expand(-1, conv.past, -1) if repeat_first else x.new_zeros(len(x), conv.past, x.shape[-1])
        x = torch.cat([left, x], dim=1)
    if conv.stride == 1:
        return _convolve_dense(x, weight, conv.bias)
    # A kernel of two strides: each output sees a block of inputs and the block before it.
    blocks = x.reshape(len(x), -1, conv.stride * x.shape[-1])
    before, now = weight.reshape(out_channels, 2, -1).unbind(1)
    return F.linear(blocks[:, :-1], before) + F.linear(blocks[:, 1:], now, conv.bias)


def _convolve_dense(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[B, T + kernel - 1, in] and [out, kernel, in] -> [B, T, out], whichever of in and out is fewer copied per tap."""
    out_channels, kernel, in_channels = weight.shape
    steps = x.shape[1] - kernel + 1
    if kernel == 1 or in_channels <= out_channels:
        taps = torch.cat([x[:, tap : tap + steps] for tap in range(kernel)], dim=-1)
        return F.linear(taps, weight.reshape(out_channels, -1), bias)
    products = F.linear(x, weight.transpose(0, 1).reshape(-1, in_channels)).unflatten(-1, (kernel, out_channels))
    y: Tensor = products[:, :steps, 0]
    for tap in range(1, kernel):
        y = y + products[:, tap : tap + steps, tap]
    return y if bias is None else y + bias.to(y.dtype)


def convolve_up(x: Tensor, conv: CausalConvTranspose1d) -> Tensor:
    """[B, T, in] -> [B, T * stride, out] of a whole signal, for a kernel of two strides."""
    batch, steps, _ = x.shape
    if conv.groups == 1:
        weight = conv.weight.permute(2, 1, 0).reshape(-1, x.shape[-1])  # [kernel * out, in]
        y = F.linear(x, weight)
    else:  # one group a channel
        y = x[:, :, None] * conv.weight[:, 0].T.to(x.dtype)
    now, later = y.reshape(batch, steps, 2, -1).unbind(2)
    later = torch.cat([torch.zeros_like(later[:, :1]), later[:, :-1]], dim=1)
    whole = (now + later).reshape(batch, steps * conv.stride, conv.out_channels)
    return whole if conv.bias is None else whole + conv.bias.to(whole.dtype)


def residual(x: Tensor, block: ResidualBlock) -> Tensor:
    """[B, T, dim] -> [B, T, dim]."""
    y = convolve(F.elu(x), block.narrow)
    return x + convolve(F.elu(y), block.widen)


def analyse(x: Tensor, encoder: SEANetEncoder) -> Tensor:
    """Samples [B, T, 1] -> features [B, T / prod(ratios), dim]."""
    x = convolve(x, encoder.first)
    stages: Iterable[Any] = encoder.stages
    for stage in stages:
        x = convolve(F.elu(residual(x, stage.block)), stage.down)
    return convolve(F.elu(x), encoder.last)


def synthesise(x: Tensor, decoder: SEANetDecoder) -> Tensor:
    """Features [B, T, dim] -> samples float32 [B, T * prod(ratios), 1]."""
    x = convolve(x, decoder.first)
    stages: Iterable[Any] = decoder.stages
    for stage in stages:
        x = residual(convolve_up(F.elu(x), stage.up), stage.block)
    return convolve(F.elu(x), decoder.last).float()


def transform(x: Tensor, transformer: MimiTransformer) -> Tensor:
    """[B, T, dim] -> [B, T, dim]; T latents fit in the window."""
    batch, steps, dim = x.shape
    if steps > transformer.window:
        raise ValueError(f"{steps} latents do not fit a window of {transformer.window}")
    rotation = Rotation.at(torch.arange(steps, device=x.device)[None], transformer.head_dim)
    layers: Iterable[Any] = transformer.layers
    for layer in layers:
        packed = layer.in_proj(layer.norm1(x)).reshape(batch, steps, 3, transformer.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(rotation(query), rotation(key), value, is_causal=True)
        x = x + layer.scale1 * layer.out_proj(seen.transpose(1, 2).reshape(batch, steps, dim))
        x = x + layer.scale2 * layer.linear2(F.gelu(layer.linear1(layer.norm2(x))))
    return x


def latents(samples: Tensor, mimi: Mimi) -> Tensor:
    """Samples [B, F * 1920] -> what is quantised, [B, F, dim]."""
    x = transform(analyse(samples[..., None], mimi.encoder), mimi.encoder_transformer)
    return convolve(x, mimi.downsample, repeat_first=True)


def features(quantised: Tensor, mimi: Mimi) -> Tensor:
    """Quantised latents [B, F, dim] -> what the convolutions make sound of, [B, 2 * F, dim]."""
    return transform(convolve_up(quantised, mimi.upsample), mimi.decoder_transformer)


def sound(quantised: Tensor, mimi: Mimi) -> tuple[Tensor, Tensor]:
    """Quantised latents [B, F, dim] -> samples float32 [B, F * 1920] and the `features` on the way."""
    middle = features(quantised, mimi)
    return synthesise(middle, mimi.decoder)[..., 0], middle


assert LATENTS_PER_FRAME == 2  # noqa: S101 - `convolve_up` and the docstrings above rely on it
