"""How loud each frame of a recording is, and which are quiet."""

import numpy as np
from numpy.typing import NDArray

from personaplex.core.config import FRAME_SAMPLES

QUIET_DBFS = -50.0
"""A frame with an RMS under this is quiet; 0 dBFS is an RMS of 1. Speech lies some 30 dB above."""


def frame_power(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean square of each frame of 24 kHz audio `[N]`: `[F]`, a partial last frame's over the samples it has."""
    if not len(samples):
        return np.zeros(0)
    starts = np.arange(0, len(samples), FRAME_SAMPLES)
    sums: NDArray[np.float64] = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    return sums / np.diff(starts, append=len(samples))


def quiet_frames(samples: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which frames of 24 kHz audio `[N]` have an RMS under `QUIET_DBFS`: `[F]`, a partial last frame included."""
    quiet: NDArray[np.bool_] = frame_power(samples) < 10 ** (QUIET_DBFS / 10)
    return quiet
