"""The two sides of a call as measures take them: when each speaks, and the words that are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from personaplex.core.audio.power import WINDOWS

Mask: TypeAlias = NDArray[np.bool_]
Spans: TypeAlias = NDArray[np.int64]
"""Stretches `[S, 2]` of windows: the first one, and the one after the last; in order, none touching the next."""

UNIT_PAUSE = 0.2
"""Seconds of silence that end an inter-pausal unit: shorter ones are within words."""
SHORTEST_UNIT = 0.1
"""Seconds: what is shorter is a click."""
TURN_PAUSE = 1.0
"""Seconds of silence that end a turn, unless the other side begins sooner."""
WORD_REACH = 0.5
"""Seconds that a word may lie from the sound that it is counted to."""


@dataclass(frozen=True, eq=False)
class Track:
    """One side of a call: in which windows of 20 ms it sounds, `[W]`, and the start and end of its words in seconds.

    `words` is None where nobody wrote them down. A recording does not listen: what it says is no answer, and it can't
    give way to anybody.
    """

    name: str
    mask: Mask
    words: Sequence[tuple[float, float]] | None = None
    listens: bool = True


def window(seconds: float) -> int:
    """How many windows last so long."""
    return round(seconds * WINDOWS)


def second(window: int | np.int64) -> float:
    """When a window begins."""
    return round(float(window) / WINDOWS, 2)


def spans(mask: Mask) -> Spans:
    """The runs of a mask `[W]`."""
    return np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)


def mask_of(spans: Spans, windows: int) -> Mask:
    """The mask `[W]` that is true within spans."""
    edges = np.zeros(windows + 1, np.int64)
    edges[spans[:, 0]] += 1
    edges[spans[:, 1]] -= 1
    return np.cumsum(edges[:windows]) > 0


def units_of(mask: Mask) -> Spans:
    """The inter-pausal units of a mask `[W]`: pauses under `UNIT_PAUSE` don't end one, and clicks are none."""
    found = spans(mask)
    units = _joined(found, found[1:, 0] - found[:-1, 1] < window(UNIT_PAUSE))
    return units[units[:, 1] - units[:, 0] >= window(SHORTEST_UNIT)]


def turns_of(units: Spans, other: Spans) -> Spans:
    """A side's units joined to turns, each ended by `TURN_PAUSE` of silence, or where `other` begins in a pause."""
    starts, ends = units[1:, 0], units[:-1, 1]
    answered = np.searchsorted(other[:, 0], starts) > np.searchsorted(other[:, 0], ends)
    return _joined(units, (starts - ends < window(TURN_PAUSE)) & ~answered)


def _joined(found: Spans, with_next: Mask) -> Spans:
    """Spans `[S, 2]`, each made one with the next where `with_next` `[S - 1]` says so."""
    if not len(found):
        return found
    first, last = np.append(True, ~with_next), np.append(~with_next, True)
    return np.stack([found[first, 0], found[last, 1]], axis=1)


def words_in(words: Sequence[tuple[float, float]], found: Spans) -> NDArray[np.int64]:
    """How many words belong to each span: those whose middle lies in it or, within `WORD_REACH`, nearest to it."""
    counts = np.zeros(len(found), np.int64)
    if not len(found) or not words:
        return counts
    middle = np.mean(np.array(words), axis=1) * WINDOWS
    after = np.searchsorted(found[:, 0], middle, side="right")
    before = np.maximum(after - 1, 0)
    following = np.minimum(after, len(found) - 1)
    late = np.where(after > 0, np.maximum(middle - found[before, 1], 0), np.inf)
    early = np.where(after < len(found), found[following, 0] - middle, np.inf)
    nearest = np.where(late < early, before, following)
    near = np.minimum(late, early) <= window(WORD_REACH)
    np.add.at(counts, nearest[near], 1)
    return counts
