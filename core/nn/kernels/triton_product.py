"""A matrix product in Triton whose rows keep their bits in any batch.

cuBLAS takes another kernel, and another order of sums, for another number of rows. Here a program computes a tile of
fixed size, over the whole of K in order, so that more rows only mean more programs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex.core.nn.kernels.launching import launch

ROWS, COLUMNS = 64, 32  # of a tile: up to 64 rows every weight is read once
_DEPTH_BYTES = 256  # of a row that are multiplied at a time


@triton.jit(do_not_specialize=["count"])
def _product(
    x, weight, out, count,
    INNER: tl.constexpr, OUTER: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Programs that share weights follow each other, so that those weights come from the cache but once.
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, INNER, DEPTH):
        within = start + k < INNER
        rows = tl.load(
            x + row.to(tl.int64)[:, None] * INNER + (start + k)[None, :],
            mask=(row < count)[:, None] & within[None, :],
            other=0,
        )
        columns = tl.load(
            weight + column.to(tl.int64)[None, :] * INNER + (start + k)[:, None],
            mask=(column < OUTER)[None, :] & within[:, None],
            other=0,
        )
        total = tl.dot(rows, columns, total, input_precision="ieee")
    place = out + row.to(tl.int64)[:, None] * OUTER + column[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=(row < count)[:, None] & (column < OUTER)[None, :])


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x · weightᵀ: [..., in] and [out, in] -> [..., out], summed up in float32."""
    outer, inner = weight.shape
    rows = x.reshape(-1, inner).contiguous()
    out = torch.empty(*x.shape[:-1], outer, dtype=x.dtype, device=x.device)
    launch(
        _product,
        (triton.cdiv(len(rows), ROWS), triton.cdiv(outer, COLUMNS)),
        rows,
        weight.contiguous(),
        out,
        len(rows),
        INNER=inner,
        OUTER=outer,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        DEPTH=_DEPTH_BYTES // x.dtype.itemsize,
        num_stages=3,
    )
    return out
