"""Matrix products of whole numbers: int8 weights, and activations that are rounded to int8 row by row.

Sums of whole numbers are exact in any order, so what a row gives hangs on no kernel, no thread and no neighbour: it is
the same on every processor. A library may still be wrong, and some are: without the instructions for it, oneDNN adds
two products in 16 bits, which is too few. So a kernel is used only where a check on this machine found exact sums.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGEST = 127
SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Rows of a product: empty ones are added up to the next of these, so that a check of each does for all numbers."""
SIZES_CUDA = (32, 64, 128)  # cuBLAS wants more than 16 rows, and multiples of 8
DISTINCT = 64  # rows of the weight that a check is made with
TINY = 1e-20  # the least that a row's largest value counts as: a row of zeros gives zeros
PIECE = 1024  # of a row: 1024 · 127 · 127 < 2^24, so float32 adds such a piece up exactly in any order
CHUNK = 1024  # rows of a weight that are quantised at once


@dataclass(frozen=True)
class Kernel:
    """A way to add up: `laid_out` of a weight int8 [out, in] -> what `sums` of values int8 [R, in] multiplies with.

    `sums` gives float32 [R, out], each the nearest to the exact sum.
    """

    name: str
    laid_out: Callable[[Tensor], Tensor]
    sums: Callable[[Tensor, Tensor], Tensor]


def _packed(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight, None)
    return packed


def _packed_sums(values: Tensor, weight: Tensor) -> Tensor:
    shifted = values.view(torch.uint8) ^ 128  # by 128, which the kernel takes off again
    out = weight.shape[1]
    found: Tensor = torch.ops.onednn.qlinear_pointwise(
        *(shifted, 1.0, 128, weight, torch.ones(out), torch.zeros(out, dtype=torch.int64), None),
        *(1.0, 0, torch.float32, "none", [], ""),
    )
    return found


def _plain_sums(values: Tensor, weight: Tensor) -> Tensor:
    return torch._int_mm(values, weight.t()).float()


def _halves_sums(values: Tensor, weight: Tensor) -> Tensor:
    """Positive and negative values apart: two products of at most 127 · 127 fit into 16 bits."""
    halves = torch.cat([values.clamp_min(0), values.clamp_max(0).neg()]).view(torch.uint8)
    positive, negative = torch._int_mm(halves, weight.t()).chunk(2)
    return (positive - negative).float()


def _wide_sums(values: Tensor, weight: Tensor) -> Tensor:
    """In float32, piece by piece: slow, and exact on anything that knows float32."""
    pieces = zip(values.split(PIECE, dim=1), weight.split(PIECE, dim=1), strict=True)
    return sum((F.linear(x.float(), w.float()).double() for x, w in pieces), torch.zeros(())).float()


def _as_it_is(weight: Tensor) -> Tensor:
    return weight


PACKED = Kernel("packed", _packed, _packed_sums)
PLAIN = Kernel("plain", _as_it_is, _plain_sums)
HALVES = Kernel("halves", _as_it_is, _halves_sums)
WIDE = Kernel("wide", _as_it_is, _wide_sums)
KERNELS: dict[str, tuple[Kernel, ...]] = {"cpu": (PACKED, PLAIN, HALVES, WIDE), "cuda": (PLAIN,)}
"""By kind of device, the quickest first. All give the same, so that which one runs changes no bit."""
KERNELS_ALONE = KERNELS | {"cpu": (PLAIN, PACKED, HALVES, WIDE)}
"""The same for one call at a time: a row alone is quicker with a weight that is read from end to end."""

_EXACT: dict[tuple[str, torch.Size, torch.device, int], bool] = {}  # kept for the process


class Int8Matrix(nn.Module):
    """A weight [out, in] as whole numbers from -127 to 127, and `scale` float32 [out], what a 1 stands for in each row.

    `settle` comes before the first product. Where no kernel is exact, the weight alone is in int8.
    """

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.shape = weight.shape
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.kernel: Kernel | None = None
        self._threads: int | None = None
        self._several: bool | None = None

    @classmethod
    def of(cls, weight: Tensor) -> "Int8Matrix":
        """A weight [out, in], quantised; one on the meta device is yet to be filled."""
        values, largest = quantised(weight)
        return cls(values, largest / LARGEST)

    @property
    def way(self) -> str:
        """What it gives: "int8", the same from every exact kernel, or "int8 weights"."""
        return "int8" if self.kernel else "int8 weights"

    def settle(self, device: torch.device, several: bool = False) -> None:
        """Choose the kernel for a device, for one call or `several` at a time, and lay the weight out for it.

        Settled for one, it may be settled for several, and stays so; again does nothing.
        """
        if device.type == "meta" or (self._several is not None and several <= self._several):
            return
        if self.kernel is not None:
            self._check_threads(self.kernel, device)
        self._threads, self._several = torch.get_num_threads(), several
        kernels = (KERNELS if several else KERNELS_ALONE).get(device.type, ())
        kernel = next((one for one in kernels if is_exact(one, self.shape, device)), None)
        if kernel is not None and kernel is not self.kernel:
            self.weight = nn.Parameter(kernel.laid_out(self.weight.data), requires_grad=False)
        self.kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        """x · weightᵀ: [..., in] -> [..., out], in the type of `x`."""
        if self.kernel is None:
            return F.linear(x, (self.weight * self.scale[:, None]).to(x.dtype))
        self._check_threads(self.kernel, x.device)
        values, scales = rounded(x.reshape(-1, self.shape[1]))
        sums = _in_sizes(self.kernel, values, self.weight)
        # The order of these two products is part of the result.
        out: Tensor = (sums * scales * self.scale).to(x.dtype).unflatten(0, x.shape[:-1])
        return out

    def _check_threads(self, kernel: Kernel, device: torch.device) -> None:
        """Look at the kernel again where torch runs with another number of threads than before."""
        threads = torch.get_num_threads()
        if threads != self._threads:
            if not is_exact(kernel, self.shape, device):
                raise RuntimeError(f"sums in int8 are not exact with {threads} threads: load the model with as many")
            self._threads = threads


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [R, in] as int8 [R, in], and float32 [R, 1], what a 1 stands for in each row: its largest value is ±127.

    Every step is exact or rounds each value by itself, so no row hangs on another.
    """
    wide = x.float()
    scales = wide.abs().amax(dim=-1, keepdim=True).clamp_min(TINY) / LARGEST
    return (wide / scales).round().to(torch.int8), scales


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A weight [out, in] as int8 [out, in], and the largest absolute value of each row, float32 [out]."""
    values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    largest = torch.empty(len(weight), dtype=torch.float32, device=weight.device)
    for start in range(0, len(weight), CHUNK):
        part = slice(start, start + CHUNK)
        values[part] = rounded(weight[part])[0]
        largest[part] = weight[part].float().abs().amax(dim=1)
    return values, largest


def _in_sizes(kernel: Kernel, values: Tensor, weight: Tensor) -> Tensor:
    """The sums of any number of rows [R, in], by products of a few known numbers of rows: [R, out]."""
    sizes = SIZES_CUDA if values.is_cuda else SIZES
    if len(values) > sizes[-1]:
        return torch.cat([_in_sizes(kernel, part, weight) for part in values.split(sizes[-1])])
    missing = next(size for size in sizes if size >= len(values)) - len(values)
    if not missing:
        return kernel.sums(values, weight)
    return kernel.sums(F.pad(values, (0, 0, 0, missing)), weight)[:-missing]


def is_exact(kernel: Kernel, shape: torch.Size, device: torch.device) -> bool:
    """Whether a kernel adds up exactly here, for weights of this shape, all numbers of rows and torch's threads."""
    key = kernel.name, shape, device, torch.get_num_threads()
    if key not in _EXACT:
        _EXACT[key] = False
        with suppress(AttributeError, NotImplementedError, RuntimeError):  # a torch or a device without the kernel
            _EXACT[key] = _adds_up(kernel, shape, device)
    return _EXACT[key]


def _adds_up(kernel: Kernel, shape: torch.Size, device: torch.device) -> bool:
    out, width = shape
    distinct = _revealing(min(DISTINCT, out), width)
    weight = kernel.laid_out(distinct.repeat(-(-out // DISTINCT), 1)[:out].to(device))
    rows = _revealing(2 * max(*SIZES, *SIZES_CUDA), width)
    for size in SIZES_CUDA if device.type == "cuda" else SIZES:
        for first in range(3 if size < 3 else 1):  # so that one row alone is at either end once
            values = rows[first : first + size]
            expected = (values.double() @ distinct.double().t()).float().repeat(1, -(-out // DISTINCT))[:, :out]
            if not torch.equal(kernel.sums(values.to(device), weight).cpu(), expected):
                return False
    return True


def _revealing(rows: int, width: int) -> Tensor:
    """Rows int8 [rows, width] whose sums show what a kernel can't hold: all at one end, all at the other, and between.

    They are the same on every machine.
    """
    steps = torch.arange(rows)[:, None] * 40503 + torch.arange(width) * (2 * torch.arange(rows)[:, None] + 1) * 7919
    found = (steps % 65521 % (2 * LARGEST + 1) - LARGEST).to(torch.int8)
    found[0::8], found[1::8] = LARGEST, -LARGEST
    found[2::8] = found[2::8].abs()
    return found
