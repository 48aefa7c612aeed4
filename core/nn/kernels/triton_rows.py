"""Kernels in Triton that work on each row alone: residual and norm, gated SiLU, embeddings, the race between tokens.

No argument that grows with the batch is specialised on: a kernel is compiled once for a model, and so rounds a row
alike in every batch.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex.core.nn.kernels.launching import launch

MOST_RACERS = 1024  # more tokens do not fit into a program's registers


@triton.jit(do_not_specialize=["x_step", "delta_step"])
def _add_norm(x, delta, alpha, total, normed, x_step, delta_step, DIM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    within = d < DIM
    value = tl.load(x + row * x_step * DIM + d, mask=within, other=0)
    if delta is not None:
        added = tl.load(delta + row * delta_step * DIM + d, mask=within, other=0)
        value = (value.to(tl.float32) + added.to(tl.float32)).to(total.dtype.element_ty)
        tl.store(total + row * DIM + d, value, mask=within)
    wide = value.to(tl.float32)
    scale = tl.load(alpha + d, mask=within, other=0).to(tl.float32) * tl.rsqrt(1e-8 + tl.sum(wide * wide) / DIM)
    tl.store(normed + row * DIM + d, (wide * scale).to(normed.dtype.element_ty), mask=within)


def add_norm(x: Tensor, delta: Tensor | None, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """x + delta and its root-mean-square norm, both of the shape of `x` [..., dim]."""
    dim = x.shape[-1]
    rows = x.reshape(-1, dim)
    added = rows if delta is None else delta.reshape(rows.shape)
    normed = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = x if delta is None else torch.empty_like(normed)
    # Steps are counted in whole rows, so that the compiler knows how they are aligned whatever they are.
    steps = rows.stride(0) // dim, added.stride(0) // dim
    grid = (len(rows),)
    launch(
        _add_norm,
        grid,
        rows,
        None if delta is None else added,
        alpha,
        total,
        normed,
        *steps,
        DIM=dim,
        BLOCK=triton.next_power_of_2(dim),
    )
    return total, normed


@triton.jit
def _gate(projected, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = d < WIDTH
    gate = tl.load(projected + row * 2 * WIDTH + d, mask=within, other=0).to(tl.float32)
    value = tl.load(projected + row * 2 * WIDTH + WIDTH + d, mask=within, other=0).to(tl.float32)
    opened = (gate / (1 + tl.exp(-gate))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * WIDTH + d, (opened * value).to(out.dtype.element_ty), mask=within)


def gate(projected: Tensor) -> Tensor:
    """silu(first half) * second half: [..., 2 f] -> [..., f]."""
    width = projected.shape[-1] // 2
    rows = projected.reshape(-1, 2 * width)
    out = torch.empty(*projected.shape[:-1], width, dtype=projected.dtype, device=projected.device)
    block = min(1024, triton.next_power_of_2(width))
    launch(_gate, (len(rows), triton.cdiv(width, block)), rows, out, WIDTH=width, BLOCK=block)
    return out


@triton.jit
def _embed(
    columns, emb, text_emb, out, VOCABULARY: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, STREAMS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = d < DIM
    token = tl.load(columns + row * STREAMS + 1)
    total = tl.load(emb + token * DIM + d, mask=within, other=0)
    for stream in tl.static_range(2, STREAMS + 1):
        if stream == STREAMS:
            place = text_emb + tl.load(columns + row * STREAMS) * DIM
        else:
            token = tl.load(columns + row * STREAMS + stream)
            place = emb + ((stream - 1) * VOCABULARY + token) * DIM
        added = tl.load(place + d, mask=within, other=0)
        total = (total.to(tl.float32) + added.to(tl.float32)).to(out.dtype.element_ty)
    tl.store(out + row * DIM + d, total, mask=within)


def embed(columns: Tensor, emb: Tensor, text_emb: Tensor) -> Tensor:
    """The sum of the embeddings of columns int64 [B, S] -> [B, dim]: streams 1 to S - 1 in `emb`, then the text's.

    `emb` is [S - 1, vocabulary, dim], `text_emb` [text vocabulary, dim]. Every sum is rounded, as by torch.
    """
    streams, dim = columns.shape[-1], emb.shape[-1]
    out = torch.empty(len(columns), dim, dtype=emb.dtype, device=emb.device)
    block = min(512, triton.next_power_of_2(dim))
    launch(
        _embed,
        (len(columns), triton.cdiv(dim, block)),
        columns.contiguous(),
        emb,
        text_emb,
        out,
        VOCABULARY=emb.shape[1],
        DIM=dim,
        BLOCK=block,
        STREAMS=streams,
    )
    return out


@triton.jit(do_not_specialize=["stream"])
def _race(kept, tokens, seeds, frames, out, stream, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    within = i < COUNT
    token = tl.load(tokens + row * COUNT + i, mask=within, other=0)
    frame = tl.load(frames + row).to(tl.uint32)
    counter = token.to(tl.uint32)
    zero = counter * 0
    word, _, _, _ = tl.philox(tl.load(seeds + row), counter, zero + frame, zero + stream.to(tl.uint32), zero)
    noise = (-tl.log((word.to(tl.float64) + 0.5) * 2.3283064365386963e-10)).to(tl.float32)  # 2 to the power of -32
    score = tl.div_rn(tl.load(kept + row * COUNT + i, mask=within, other=0), noise)
    winner = tl.argmax(tl.where(within, score, -1.0), axis=0)
    tl.store(out + row, tl.load(tokens + row * COUNT + winner))


def race(kept: Tensor, tokens: Tensor, seed: Tensor, frame: Tensor, stream: int) -> Tensor:
    """The token int64 [B] of the largest probability over noise; `kept` float32 and `tokens` int64 are [B, k].

    The noise is `core.sampling.noise.exponential`'s, of `seed` and `frame`, int64 [B]; k is at most `MOST_RACERS`.
    """
    rows, count = tokens.shape
    out = torch.empty(rows, dtype=torch.int64, device=tokens.device)
    launch(
        _race,
        (rows,),
        kept.contiguous(),
        tokens.contiguous(),
        seed,
        frame,
        out,
        stream,
        COUNT=count,
        BLOCK=triton.next_power_of_2(count),
    )
    return out
