"""How loud a recording is, a short window at a time, read in blocks: a long one never fills the memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from personaplex.core.audio.reading import Samples, part_of

WINDOWS = 50
"""Windows a second: 20 ms hold two periods of the lowest voice, and four of them are one of the model's frames."""


def window_power(
    path: Path, *, channel: str = "mix", offset: float = 0.0, duration: float | None = None
) -> npt.NDArray[np.float64]:
    """The mean square of each window of a part of a recording: `[W]`, a partial last window's over what it holds.

    Raises as `personaplex.core.audio.reading.read` does.
    """
    with part_of(path, channel=channel, offset=offset, duration=duration) as (rate, blocks):
        return np.concatenate([np.zeros(0), *(_means(*part) for part in _windowed(blocks, rate))])


def window_peaks(
    path: Path, *, channel: str = "mix", offset: float = 0.0, duration: float | None = None
) -> npt.NDArray[np.float32]:
    """The largest magnitude in each window of a part of a recording: `[W]`. Raises as `window_power` does."""
    with part_of(path, channel=channel, offset=offset, duration=duration) as (rate, blocks):
        found = (np.maximum.reduceat(np.abs(part), starts) for part, starts in _windowed(blocks, rate))
        return np.concatenate([np.zeros(0, np.float32), *found])


def _windowed(blocks: Iterator[Samples], rate: int) -> Iterator[tuple[Samples, npt.NDArray[np.int64]]]:
    """Samples of whole windows and where each of these starts in them; the last part is a window perhaps cut short.

    Window w spans the samples from `w * rate / WINDOWS` on, rounded, to the next window's first.
    """
    kept, window = np.zeros(0, np.float32), 0
    for block in blocks:
        kept = np.concatenate([kept, block])
        begun = int(_first(np.array(window), rate))
        last = (begun + len(kept)) * WINDOWS // rate  # it may go on in the next block
        if last <= window:
            continue
        starts = _first(np.arange(window, last + 1), rate) - begun
        yield kept[: starts[-1]], starts[:-1]
        kept, window = kept[starts[-1] :], last
    if len(kept):
        yield kept, np.zeros(1, np.int64)


def _first(window: npt.NDArray[np.int64], rate: int) -> npt.NDArray[np.int64]:
    """A window's first sample."""
    return (2 * window * rate + WINDOWS) // (2 * WINDOWS)


def _means(samples: Samples, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    sums: npt.NDArray[np.float64] = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    return sums / np.diff(starts, append=len(samples))
