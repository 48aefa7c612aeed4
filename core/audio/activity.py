"""When each side of a call speaks: frames with speech in them, and the stretches of speech that they make."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from personaplex.core.audio.levels import QUIET_DBFS, frame_power
from personaplex.core.config import FRAME_RATE, seconds

SEGMENT_GAP = 0.6
"""Seconds without a word, or without speech, that end a segment."""
LOUD_PERCENTILE = 95
"""The percentile of a recording's frames, by level, that stands for its loud speech: single bangs lie above."""
SPEECH_RANGE_DB = 20.0
"""How far under the loud frames speech still lies: its weak syllables do, and only a bad line has noise within it."""
SHORTEST_STRETCH = 0.24
"""Seconds: what is shorter is a click or a breath, not a word."""


def caller_frames(samples: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which frames of a caller's 24 kHz recording `[N]` hold speech: `[F]`, a partial last frame included.

    Their RMS is over `QUIET_DBFS`, and no more than `SPEECH_RANGE_DB` under the recording's `LOUD_PERCENTILE`, so
    that the noise of a telephone line is not speech. Where speech fills less of a recording than lies above the
    percentile, noise over `QUIET_DBFS` can't be told from it.
    """
    return recorded_speech(frame_power(samples))


def recorded_speech(power: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which frames of a recording hold speech, as `caller_frames` tells it, by the mean square of each `[F]`."""
    if not len(power):
        return np.zeros(0, dtype=bool)
    floor = np.percentile(power, LOUD_PERCENTILE) * 10 ** (-SPEECH_RANGE_DB / 10)
    return sounding(power, floor)


def sounding(power: NDArray[np.float64], floor: float = 0.0) -> NDArray[np.bool_]:
    """Which frames are not quiet, and louder than `floor`, by the mean square of each `[F]`."""
    active: NDArray[np.bool_] = power > max(10 ** (QUIET_DBFS / 10), floor)
    return active


def stretches(active: Sequence[bool] | NDArray[np.bool_]) -> list[tuple[float, float]]:
    """The stretches of speech, start and end in seconds, that the `active` frames `[F]` make.

    A pause shorter than `SEGMENT_GAP` does not end a stretch; stretches shorter than `SHORTEST_STRETCH` are dropped.
    """
    joined: list[tuple[int, int]] = []
    for start, end in _runs(active):
        if joined and (start - joined[-1][1]) / FRAME_RATE < SEGMENT_GAP:
            start = joined.pop()[0]
        joined.append((start, end))
    return [(seconds(start), seconds(end)) for start, end in joined if (end - start) / FRAME_RATE >= SHORTEST_STRETCH]


def _runs(active: Sequence[bool] | NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First frame of each run of active frames, and the one after its last."""
    edges = np.flatnonzero(np.diff(np.asarray(active, dtype=np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
