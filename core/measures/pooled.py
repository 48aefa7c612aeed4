"""What many calls add to a figure: parts of a fraction, or values of which a quantile is taken.

A figure of many calls is that of their events together, as if they were one long call.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from personaplex.core.measures.events import Event, Kind

FEW = 10
"""A figure of fewer events than this says little, and is marked."""
DIGITS = 4

Amounts: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """A call: its length in seconds, its sides' names and which of them listen, its events.

    `words` is how many words of a side are known; None where nobody wrote them down.
    """

    duration: float
    sides: tuple[str, str]
    listening: tuple[str, ...]
    words: Mapping[str, int | None]
    events: Sequence[Event]

    @cached_property
    def _sorted(self) -> dict[tuple[Kind, str | None], list[Event]]:
        found: dict[tuple[Kind, str | None], list[Event]] = {}
        for event in self.events:
            found.setdefault((event.kind, None), []).append(event)
            if event.side:
                found.setdefault((event.kind, event.side), []).append(event)
        return found

    def of(self, kind: Kind, side: str | None) -> list[Event]:
        """The events of a kind, of one side or (None) of both."""
        return self._sorted.get((kind, side), [])

    def minutes(self, side: str | None) -> float:
        """How long it is, for a figure of both or of a side; none where it has no such side."""
        return self.duration / 60 if side is None or side in self.sides else 0.0


@dataclass(frozen=True)
class Figure:
    """A value, None where nothing gives one, and of how many events it is."""

    value: float | None
    count: int

    @property
    def is_of_few(self) -> bool:
        """Whether it is of too few events to say much."""
        return self.count < FEW


@dataclass(frozen=True, eq=False)
class Ratio:
    """What each of N calls adds to the two parts of a fraction, and its events: `[N]` each."""

    above: Amounts
    below: Amounts
    counts: Amounts

    @property
    def figure(self) -> Figure:
        """That of all calls."""
        below = float(self.below.sum())
        value = round(float(self.above.sum()) / below, DIGITS) if below else None
        return Figure(value, int(self.counts.sum()))


@dataclass(frozen=True, eq=False)
class Quantile:
    """Values `[V]`, the number of the call that each is of `[V]`, and the share of the values that lies below."""

    values: Amounts
    calls: NDArray[np.int64]
    share: float

    @property
    def figure(self) -> Figure:
        """That of all calls."""
        value = round(float(np.quantile(self.values, self.share)), DIGITS) if len(self.values) else None
        return Figure(value, len(self.values))


Pooled: TypeAlias = Ratio | Quantile
Pool: TypeAlias = Callable[[Sequence[Measured], str | None], Pooled]


def per_minute(kind: Kind) -> Pool:
    """Events of a kind in a minute of the call."""

    def pool(calls: Sequence[Measured], side: str | None) -> Ratio:
        found = [(len(call.of(kind, side)), call.minutes(side)) for call in calls]
        return _ratio((count, minutes, count) for count, minutes in found)

    return pool


def seconds_per_minute(kind: Kind) -> Pool:
    """Seconds that events of a kind take of a minute of the call."""

    def pool(calls: Sequence[Measured], side: str | None) -> Ratio:
        found = [(call.of(kind, side), call.minutes(side)) for call in calls]
        return _ratio((_seconds(events), minutes, len(events)) for events, minutes in found)

    return pool


def success_rate(kind: Kind) -> Pool:
    """The share of the events of a kind that succeed."""

    def pool(calls: Sequence[Measured], side: str | None) -> Ratio:
        found = [call.of(kind, side) for call in calls]
        return _ratio((sum(bool(event.success) for event in events), len(events), len(events)) for events in found)

    return pool


def quantile(kind: Kind, share: float) -> Pool:
    """The quantile of the offsets of events of a kind."""

    def pool(calls: Sequence[Measured], side: str | None) -> Quantile:
        offsets = [[event.offset for event in call.of(kind, side) if event.offset is not None] for call in calls]
        numbers = np.repeat(np.arange(len(calls)), np.array([*map(len, offsets)], np.int64))
        return Quantile(np.array([value for one in offsets for value in one], float), numbers, share)

    return pool


def talk_share(calls: Sequence[Measured], side: str | None) -> Ratio:
    """A side's share of the seconds that both sides speak."""
    found = [(call.of(Kind.unit, side), call.of(Kind.unit, None)) for call in calls]
    return _ratio((_seconds(own), _seconds(both), len(own)) for own, both in found)


def words_per_minute(calls: Sequence[Measured], side: str | None) -> Ratio:
    """Words in a minute of a side's own speech, where they are known."""
    known = [(call.words.get(side or ""), _seconds(call.of(Kind.unit, side)) / 60) for call in calls]
    return _ratio((count or 0, 0 if count is None else minutes, count or 0) for count, minutes in known)


def _seconds(events: Iterable[Event]) -> float:
    return sum(event.end - event.start for event in events)


def _ratio(parts: Iterable[tuple[float, float, float]]) -> Ratio:
    table = np.array([*parts], float).reshape(-1, 3)
    return Ratio(table[:, 0], table[:, 1], table[:, 2])
