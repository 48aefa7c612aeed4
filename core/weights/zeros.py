"""Stretches of zeros in weights: what a download or a copy that broke off leaves in a file of the full length."""

import numpy as np
import torch
from torch import Tensor

from personaplex.core.errors import ModelError

WORD = 8  # bytes that are looked at together
LONGEST_STRETCH, SHORTEST_STRETCH = 32_768 // WORD, 4096 // WORD
"""Words of a stretch: a tensor is cut into eight or more. No training leaves one of them at zero."""


def zero_stretch(values: Tensor) -> int | None:
    """The byte at which a stretch of nothing but zeros begins in a weight; None if there is none.

    Vectors and what is smaller than 4 KiB are not looked at: these may be zero for a reason. Of a large tensor a word
    in every 32 KiB is read, and no more unless that is zero.
    """
    if values.dim() < 2:
        return None
    data = values.contiguous().view(-1).view(torch.uint8).numpy()  # numpy's words need not be aligned
    words = data[: len(data) // WORD * WORD].view(np.int64)
    if len(words) < SHORTEST_STRETCH:
        return None
    length = min(max(len(words) // 8, SHORTEST_STRETCH), LONGEST_STRETCH)
    stretches = words[: len(words) // length * length].reshape(-1, length)
    for number in np.flatnonzero(stretches[:, length // 2] == 0):
        if not stretches[number].any():
            return int(number) * length * WORD
    return None


def refuse_zeros(name: str, values: Tensor, path: object) -> None:
    """Raise ModelError for a weight with a stretch of zeros in the file `path`."""
    start = zero_stretch(values)
    if start is not None:
        what = f"{path}: {name} holds zeros where weights should be, from its byte {start:,} on"
        raise ModelError(what, "the file is damaged, a broken-off download perhaps: fetch or copy it again")
