"""Kernels that numba compiles, and keeps compiled between runs."""

from typing import Any

import numba
import numpy as np
from numba import njit, prange

# numba's OpenMP layer would change the number of threads that torch's kernels use, and with it their rounding.
numba.config.THREADING_LAYER = "workqueue"  # type: ignore[attr-defined, unused-ignore]


@njit(fastmath=True, inline="always")  # type: ignore[misc, unused-ignore]
def _wide(half: Any) -> Any:
    """A float32 of the bits of a bfloat16."""
    return np.uint32(np.uint32(half) << np.uint32(16)).view(np.float32)


@njit(fastmath=True, error_model="numpy", cache=True)  # type: ignore[misc, unused-ignore]
def _attend(query: Any, keys: Any, values: Any, scores: Any, out: Any) -> None:
    """One head: query [D], keys and values [S, D], room for scores [used], output [D]."""
    highest = np.float32(-3e38)  # fast math knows no infinities
    for position in range(len(scores)):
        score = np.float32(0)
        for d in range(len(query)):
            score += query[d] * _wide(keys[position, d])
        scores[position] = score
        highest = max(highest, score)
    total = np.float32(0)
    out[:] = 0
    for position in range(len(scores)):
        weight = np.exp(scores[position] - highest)
        total += weight
        for d in range(len(query)):
            out[d] += weight * _wide(values[position, d])
    out[:] /= total


@njit(fastmath=True, parallel=True, error_model="numpy", cache=True)  # type: ignore[misc, unused-ignore]
def attend_heads(query: Any, keys: Any, values: Any, used: Any, out: Any) -> None:
    """Scaled query float32 [B, H, D], bits of bfloat16 keys and values [B, H, S, D], lengths [B] -> out [B, H, D]."""
    rows, heads = query.shape[:2]
    for index in prange(rows * heads):
        row, head = index // heads, index % heads
        scores = np.empty(used[row], np.float32)
        _attend(query[row, head], keys[row, head], values[row, head], scores, out[row, head])
