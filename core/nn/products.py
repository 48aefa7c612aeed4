"""Matrix products with the model's weights, in which a row's result depends on that row alone.

A library picks its kernel by the number of rows, and some round a row by its place. So a row's result is defined by a
product of a fixed number of rows, `block`, and more are multiplied at once only where this machine gave the same bits
for that number, at every place. A processor that nobody has met gets right bits, if need be more slowly.
"""

import timeit
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.nn.int8 import Int8Matrix
from personaplex.core.nn.invariant import InvariantMatrix

Layout = Literal["packed", "plain"]

BLOCKS = (1, 2, 4)  # how few rows may define a row's result, if as many as TOGETHER give the same
TOGETHER = 16
DISTINCT = 64  # rows of a weight that a check is made with
FIXED_BLOCKS = (8, 16)  # what defines it where they don't
STEPS = (64, 32, 16, 8, 4)  # how many rows to try at once where all of them round otherwise
TIMED = 3


@dataclass(frozen=True)
class Way:
    """How products with a weight are computed: its layout, and how many rows define a row's result."""

    layout: Layout
    block: int


# Kept for the process: what a kernel is chosen by is the weight's shape, type and layout, the rows and the threads.
_WAYS: dict[tuple[torch.Size, torch.dtype, int], Way] = {}
_AT_ONCE: dict[tuple[torch.Size, torch.dtype, Way, int, int], int] = {}


class Matrix(nn.Module):
    """A weight [out, in] on a CPU, laid out for its kernels, and the way its products are computed."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        key = (weight.shape, weight.dtype, torch.get_num_threads())
        if key not in _WAYS:
            _WAYS[key] = _choose(dict(_layouts(_revealing(weight.shape, weight.dtype))))
        self.way = _WAYS[key]
        self._at_once: dict[tuple[int, int], int] = {}
        self.weight = nn.Parameter(dict(_layouts(weight))[self.way.layout], requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """x · weightᵀ: calls [B, in] or [B, T, in] -> [..., out]. The T positions are of one call if B is 1."""
        if x.ndim == 3 and len(x) == 1:
            return self._multiplied(x) if x.shape[1] > 1 else self._rows(x[0])[None]
        out: Tensor = self._rows(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
        return out

    def _rows(self, x: Tensor) -> Tensor:
        """[R, in] -> [R, out], every row as in a block of its own."""
        rows = len(x)
        size = self.at_once(rows)
        if size == rows:
            return self._multiplied(x.contiguous())
        if size > rows:
            return self._multiplied(F.pad(x, (0, 0, 0, size - rows)))[:rows]
        return torch.cat([self._rows(part) for part in x.split(size)])

    def at_once(self, rows: int) -> int:
        """How many rows a product takes where there are `rows`; if more, empty ones are added to them."""
        key = rows, torch.get_num_threads()
        if key not in self._at_once:
            shared = (self.weight.shape, self.weight.dtype, self.way, *key)
            if shared not in _AT_ONCE:
                _AT_ONCE[shared] = self._choose_at_once(rows)
            self._at_once[key] = _AT_ONCE[shared]
        return self._at_once[key]

    def _choose_at_once(self, rows: int) -> int:
        block = self.way.block
        weight = dict(_layouts(_revealing(self.weight.shape, self.weight.dtype)))[self.way.layout]
        alone = _result(weight, block)

        def holds(size: int) -> bool:
            return size == block or _same(_result(weight, size), alone)

        if rows <= max(BLOCKS) and block <= max(BLOCKS):
            few = filter(holds, {max(rows, block), max(BLOCKS)})
            return min(few, key=lambda size: _seconds(weight, size), default=block)
        sizes = [size for size in (rows, *STEPS) if block < size <= rows]
        return next((size for size in sizes if holds(size)), block)

    def _multiplied(self, x: Tensor) -> Tensor:
        return _multiply(x, self.weight)


def _layouts(weight: Tensor) -> Iterator[tuple[Layout, Tensor]]:
    """The weight in each layout that this machine has kernels for, the quicker one first.

    Packing is oneDNN's; its operators are torch's own but private, so a torch or a processor without them does without.
    """
    if torch.backends.mkldnn.is_available() and weight.dtype in (torch.float32, torch.bfloat16):
        with suppress(AttributeError, NotImplementedError, RuntimeError):
            yield "packed", torch.ops.mkldnn._reorder_linear_weight(weight)
    yield "plain", weight


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    if weight.is_mkldnn:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
        return out
    return F.linear(x, weight)


def _choose(layouts: dict[Layout, Tensor]) -> Way:
    """The first layout in which a few rows round as many do, and how few; else one with blocks of a fixed size.

    A row alone in a product is the last resort: whatever a kernel does with it, it does the same each time.
    """
    for layout, weight in layouts.items():
        together = _result(weight, TOGETHER)
        for block in BLOCKS if together is not None else ():
            if _same(_result(weight, block), together):
                return Way(layout, block)
    for block in FIXED_BLOCKS:
        for layout, weight in layouts.items():
            if _result(weight, block) is not None:
                return Way(layout, block)
    return Way("plain", 1)


def _result(weight: Tensor, rows: int) -> Tensor | None:
    """A row's result [out] in a product of `rows` rows with a revealing weight; None if place or neighbours matter.

    The rows are one row times plus and minus powers of two, which round as it does, so one product tries all places.
    """
    scales = torch.tensor([[(-1.0) ** row * 2.0 ** (5 * row % 7)] for row in range(rows)], dtype=weight.dtype)
    width = weight.shape[1]
    row = _mirrored(probe(width // 2, weight.dtype), width, 1)
    found = _multiply(row * scales, weight) / scales
    return found[0].clone() if torch.equal(found, found[:1].expand_as(found)) else None


def _revealing(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """A weight that shows how its products with a mirrored row round, where a model's own seldom would.

    Every second output is zero but for rounding, so that any other order of sums shows: with a model's own weights,
    bfloat16 hides all but one in ten thousand of such differences. The others show how a sum itself is rounded.
    """
    out, width = shape
    rows = torch.stack([probe(width, dtype, 1 + number) for number in range(min(DISTINCT, out))])
    rows[1::2] = _mirrored(rows[1::2, : width // 2], width, -1)
    return rows.repeat(-(-out // DISTINCT), 1)[:out]


def _mirrored(half: Tensor, width: int, sign: int) -> Tensor:
    """[..., width // 2] and the same again, backwards and times `sign`: [..., width], the middle of an odd width 0."""
    return torch.cat([half, half.new_zeros(*half.shape[:-1], width % 2), sign * half.flip(-1)], dim=-1)


def probe(width: int, dtype: torch.dtype, number: int = 0) -> Tensor:
    """A row [width] of numbers between -1 and 1 that are the same on every machine; another for each `number`."""
    return (((torch.arange(width) * (2 * number + 1) + number) * 40503 % 65521).double() / 32760 - 1).to(dtype)


def _seconds(weight: Tensor, rows: int) -> float:
    """What a product of so many rows takes here. It is asked only where the answer changes no bit."""
    x = torch.zeros(rows, weight.shape[1], dtype=weight.dtype)
    return min(timeit.repeat(lambda: _multiply(x, weight), number=1, repeat=TIMED))


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


def linear(x: Tensor, weight: Tensor | nn.Module) -> Tensor:
    """x · weightᵀ: [..., in] and [out, in] -> [..., out]."""
    if isinstance(weight, Tensor):
        return F.linear(x, weight)
    out: Tensor = weight(x)
    return out


class Packable(nn.Module):
    """A module whose weights can be packed: `matrices` are [out, in], `stacks` [K, out, in] with one of K in use."""

    matrices: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()

    def pack_own(self, kind: "type[Matrix | InvariantMatrix]") -> None:
        """Make this module's weights matrices, one after the other, so that no more than one is there twice."""
        for name in self.matrices:
            weight = getattr(self, name)
            if isinstance(weight, nn.Parameter):
                delattr(self, name)
                setattr(self, name, kind(weight))
        for name in self.stacks:
            weights = getattr(self, name)
            if isinstance(weights, nn.Parameter):
                delattr(self, name)
                setattr(self, name, nn.ModuleList(kind(weight) for weight in weights.unbind()))


def pack(module: nn.Module, invariant: bool = False) -> None:
    """Make all weights below `module` that multiply calls' rows matrices; again does nothing.

    On a CPU always, on CUDA only if `invariant`: there it costs speed. Weights in int8 are settled anywhere.
    """
    for part in module.modules():
        if isinstance(part, Int8Matrix):
            part.settle(part.weight.device)
        elif isinstance(part, Packable):
            on_cpu = all(one.device.type == "cpu" for one in part.parameters())
            if on_cpu or invariant:
                part.pack_own(Matrix if on_cpu else InvariantMatrix)


def lay_out(module: nn.Module, slots: int) -> None:
    """Lay the weights in int8 of a packed module out for so many calls at a time. It changes speed alone, no bit."""
    for part in module.modules():
        if isinstance(part, Int8Matrix):
            part.settle(part.weight.device, several=slots > 1)


def ways(module: nn.Module) -> str:
    """How the products of a packed module are computed, such as "packed/1, packed/2": layouts and their blocks.

    Those of weights in int8 are told as `Int8Matrix.way`.
    """
    found = {f"{one.way.layout}/{one.way.block}" for one in module.modules() if isinstance(one, Matrix)}
    found |= {one.way for one in module.modules() if isinstance(one, Int8Matrix)}
    return ", ".join(sorted(found))


def results(module: nn.Module) -> Iterator[Tensor]:
    """What the products of a packed module give for a fixed row: [1, out] for one weight of each shape and way."""
    kinds = {(one.weight.shape, one.way): one for one in module.modules() if isinstance(one, Matrix)}
    yield from (matrix(probe(matrix.weight.shape[1], matrix.weight.dtype)[None]) for matrix in kinds.values())
    in_int8 = {one.shape: one for one in module.modules() if isinstance(one, Int8Matrix)}
    yield from (matrix(probe(matrix.shape[1], torch.float32)[None]) for matrix in in_int8.values())
