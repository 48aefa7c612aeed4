"""Attention of one query a row in Triton: turns query and key, writes key and value, reads each row's own keys alone.

Keys are read in splits of a fixed size, each of which gives a maximum, a sum and an output in float32; a second kernel
merges them in order. So a row's bits depend on its own keys alone: neither on other rows and their number, nor on the
ring's length, nor on how the splits are shared out between programs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.kernels.launching import launch
from personaplex.core.nn.rotary import Rotation

SPLIT = 256  # keys
TILE = 64  # keys read at a time
PROGRAMS = 1024  # that keep any GPU busy: with fewer heads and rows, splits are shared out
_AS_THEY_COME = ["slots", "position"]  # a specialised length might be read, and so summed up, in another order


@triton.jit
def _turned(vector, cos, sin, d, row, within, DIM: tl.constexpr):
    """A vector [DIM] with its interleaved pairs turned, in its own type."""
    value = tl.load(vector + d, mask=within, other=0)
    if cos is not None:
        partner = tl.load(vector + (d ^ 1), mask=within, other=0).to(tl.float32)
        pair = row * (DIM // 2) + d // 2
        along = value.to(tl.float32) * tl.load(cos + pair, mask=within, other=0)
        across = partner * tl.load(sin + pair, mask=within, other=0)
        value = tl.where(d % 2 == 0, along - across, along + across).to(value.dtype)
    return value


@triton.jit(do_not_specialize=_AS_THEY_COME)
def _attend(
    packed, cos, sin, lengths, keys, values, out, maxima, sums, slots, position,
    SCALE: tl.constexpr, HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr,
    SPLIT: tl.constexpr, TILE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    head_of_row = tl.program_id(0).to(tl.int64)
    row, head = head_of_row // HEADS, head_of_row % HEADS
    d = tl.arange(0, BLOCK)
    within = d < DIM
    own = packed + (row * 3 * HEADS + head) * DIM
    query = _turned(own, cos, sin, d, row, within, DIM).to(tl.float32) * SCALE
    key = _turned(own + HEADS * DIM, cos, sin, d, row, within, DIM)
    value = tl.load(own + 2 * HEADS * DIM + d, mask=within, other=0)
    at = position
    if lengths is not None:
        at = tl.load(lengths + row)
    slot = at % slots
    used = tl.minimum(at + 1, slots)
    ring = head_of_row * slots * DIM
    if tl.program_id(1) == 0:
        tl.store(keys + ring + slot * DIM + d, key, mask=within)
        tl.store(values + ring + slot * DIM + d, value, mask=within)
    splits = tl.cdiv(slots, SPLIT)
    for split in range(tl.program_id(1), tl.cdiv(used, SPLIT), tl.num_programs(1)):
        highest = tl.full((), -float("inf"), tl.float32)
        total = tl.full((), 0, tl.float32)
        seen = tl.zeros((BLOCK,), tl.float32)
        for start in range(split * SPLIT, tl.minimum(split * SPLIT + SPLIT, used), TILE):
            index = start + tl.arange(0, TILE)
            visible = index < used
            place = ring + index[:, None] * DIM + d[None, :]
            mask = visible[:, None] & within[None, :]
            # The new position may not have reached the ring yet, so it is never read from there.
            new = (index == slot)[:, None]
            tile = tl.where(new, key[None, :], tl.load(keys + place, mask=mask, other=0)).to(tl.float32)
            scores = tl.where(visible, tl.sum(tile * query[None, :], axis=1), -float("inf"))
            higher = tl.maximum(highest, tl.max(scores, axis=0))
            shrink = tl.exp(highest - higher)
            weights = tl.exp(scores - higher)
            tile = tl.where(new, value[None, :], tl.load(values + place, mask=mask, other=0)).to(tl.float32)
            total = total * shrink + tl.sum(weights, axis=0)
            seen = seen * shrink + tl.sum(weights[:, None] * tile, axis=0)
            highest = higher
        if WHOLE:
            tl.store(out + head_of_row * DIM + d, (seen / total).to(out.dtype.element_ty), mask=within)
        else:
            part = head_of_row * splits + split
            tl.store(out + part * DIM + d, seen, mask=within)
            tl.store(maxima + part, highest)
            tl.store(sums + part, total)


@triton.jit(do_not_specialize=_AS_THEY_COME)
def _merge(
    parts, maxima, sums, lengths, out, slots,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    head_of_row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    within = d < DIM
    used = tl.minimum(tl.load(lengths + head_of_row // HEADS) + 1, slots)
    highest = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0, tl.float32)
    seen = tl.zeros((BLOCK,), tl.float32)
    first = head_of_row * tl.cdiv(slots, SPLIT)
    for part in range(first, first + tl.cdiv(used, SPLIT)):
        here = tl.load(maxima + part)
        higher = tl.maximum(highest, here)
        old, new = tl.exp(highest - higher), tl.exp(here - higher)
        total = total * old + tl.load(sums + part) * new
        seen = seen * old + tl.load(parts + part * DIM + d, mask=within, other=0) * new
        highest = higher
    tl.store(out + head_of_row * DIM + d, (seen / total).to(out.dtype.element_ty), mask=within)


def attend_step(packed: Tensor, rotation: Rotation, cache: KVCache, layer: int) -> Tensor:
    """Every row's next position: query, key and value in `packed` [B, 1, 3 · H · D] -> [B, 1, H · D].

    Key and value are written into the rings of the layer; the caller advances the cache after the last one.
    """
    cos, sin = rotation.cos.contiguous(), rotation.sin.contiguous()
    return _run(packed, (cos, sin), cache.keys[layer], cache.values[layer], cache.length, 0)


def attend_few(packed: Tensor, keys: Tensor, values: Tensor, position: int) -> Tensor:
    """The same for all rows at one position of a few, which are not turned: `keys` and `values` are [B, H, K, D]."""
    return _run(packed, (None, None), keys, values, None, position)


def _run(
    packed: Tensor,
    rotation: tuple[Tensor | None, Tensor | None],
    keys: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    position: int,
) -> Tensor:
    rows, heads, slots, dim = keys.shape
    out = torch.empty(rows, 1, heads * dim, dtype=packed.dtype, device=packed.device)
    splits = triton.cdiv(slots, SPLIT)
    whole = splits == 1
    parts, maxima, sums = out, out, out
    if not whole:
        parts = torch.empty(rows, heads, splits, dim, dtype=torch.float32, device=packed.device)
        maxima, sums = torch.empty(2, rows, heads, splits, dtype=torch.float32, device=packed.device)
    shape = {"HEADS": heads, "DIM": dim, "BLOCK": triton.next_power_of_2(dim), "SPLIT": SPLIT}
    share = min(splits, triton.cdiv(PROGRAMS, rows * heads))
    launch(
        _attend,
        (rows * heads, share),
        packed.reshape(rows, 3 * heads * dim).contiguous(),
        *rotation,
        lengths,
        keys,
        values,
        parts,
        maxima,
        sums,
        slots,
        position,
        SCALE=dim**-0.5,
        TILE=TILE,
        WHOLE=whole,
        **shape,
    )
    if not whole:
        launch(_merge, (rows * heads,), parts, maxima, sums, lengths, out, slots, **shape)
    return out
