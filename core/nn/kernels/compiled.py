"""Attention of one query a row over bfloat16 keys and values on a CPU, compiled by numba where it is installed.

Each head of a row is computed by one thread in float32, so its bits depend neither on other rows nor on the number of
threads; keys and values are read once, at the memory's speed, where torch's kernel reaches a fifth of it.
"""

from functools import cache
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Half = npt.NDArray[np.uint16]  # the bits of bfloat16 numbers


@cache
def _is_installed() -> bool:
    return find_spec("numba") is not None


def is_used(dtype: torch.dtype) -> bool:
    """Whether a CPU attends by it in `dtype`: in bfloat16, with numba installed as by the extra `personaplex[cpu]`."""
    return dtype is torch.bfloat16 and _is_installed()


def attend(query: Tensor, keys: Tensor, values: Tensor, used: list[int]) -> Tensor:
    """Row b attends from `query` [B, H, 1, D] to the first used[b] of `keys` and `values` [B, H, S, D]: [B, H, 1, D].

    All bfloat16.
    """
    from personaplex.core.nn.kernels.numba_attention import attend_heads  # compiles, so only where it is used

    scaled = query[:, :, 0].float() / query.shape[-1] ** 0.5
    seen = np.empty(scaled.shape, np.float32)
    attend_heads(scaled.numpy(), _bits(keys), _bits(values), np.array(used), seen)
    return torch.from_numpy(seen)[:, :, None].to(query.dtype)


def _bits(tensor: Tensor) -> Half:
    bits: Half = tensor.view(torch.int16).numpy().view(np.uint16)
    return bits
