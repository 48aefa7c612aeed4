"""What happens in a call between its two sides, each event with its time.

All of it follows from two masks and the words that are known: units and turns (`tracks`), who sounds in each window,
and who takes the floor from whom. docs/measures.md tells the same to those who read the figures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from personaplex.core.measures.tracks import (
    TURN_PAUSE,
    Mask,
    Spans,
    Track,
    mask_of,
    second,
    spans,
    turns_of,
    units_of,
    window,
    words_in,
)

INSIDE = 0.2
"""Seconds of a unit before and after a start that lies inside it: nearer to its end, turns just touch."""
YIELD_WITHIN = 2.0
"""Seconds that a side has to give way."""
SHORT = 1.0
"""Seconds: what is shorter, and has few words, takes no floor."""
BACKCHANNEL_WORDS = 2
"""The most words of a back-channel."""
NO_TAKEOVER_WORDS = 3
"""The most words of a short answer that does not take the floor."""
DEAD_AIR = 2.0
"""Seconds of silence of both sides that are dead air."""


class Kind(StrEnum):
    """What an event is; `Event.side` says whose it is."""

    unit = "unit"
    turn = "turn"
    pause = "pause"
    gap = "gap"
    overlap = "overlap"
    transfer = "transfer"
    response = "response"
    takeover = "takeover"
    interruption = "interruption"
    yielding = "yield"
    backchannel = "backchannel"
    dead_air = "dead_air"


@dataclass(frozen=True)
class Event:
    """Something from `start` to `end`, in seconds.

    `side` is who speaks, pauses, takes the floor, answers or gives way; empty where it is both. `offset` is, in
    seconds, that of a transfer, the latency of a response or a yield. `success` tells whether an answer came, took
    the floor, or a side gave way.
    """

    kind: Kind
    start: float
    end: float
    side: str = ""
    offset: float | None = None
    success: bool | None = None


@dataclass(frozen=True, eq=False)
class Side:
    """A track with what is made of it: units and turns, the words of each turn (None if unknown), and units' mask."""

    track: Track
    units: Spans
    turns: Spans
    words: Sequence[int] | None
    sounds: Mask

    @property
    def name(self) -> str:
        """The track's."""
        return self.track.name

    def is_short(self, turn: int, most_words: int) -> bool:
        """Whether a turn is under `SHORT` and, as far as its words are known, of no more than `most_words`."""
        start, end = self.turns[turn]
        return bool(end - start < window(SHORT)) and (self.words is None or self.words[turn] <= most_words)


def sides_of(first: Track, second: Track) -> tuple[Side, Side]:
    """Both sides of a call, made equally long; raises ValueError for two tracks of one name."""
    if first.name == second.name:
        raise ValueError(f"two tracks are called {first.name}")
    windows = max(len(first.mask), len(second.mask))
    ours, theirs = units_of(first.mask), units_of(second.mask)
    return _side(first, ours, theirs, windows), _side(second, theirs, ours, windows)


def _side(track: Track, units: Spans, other: Spans, windows: int) -> Side:
    turns = turns_of(units, other)
    words = None if track.words is None else words_in(track.words, turns).tolist()
    return Side(track, units, turns, words, mask_of(units, windows))


def events_of(one: Side, other: Side) -> list[Event]:
    """All events of a call, in order of their start."""
    found = [
        *_shared(one, other),
        *_transfers(one, other),
        *_of_side(one, other),
        *_of_side(other, one),
    ]
    return sorted(found, key=lambda event: (event.start, event.end, event.kind, event.side))


def _of_side(side: Side, other: Side) -> Iterator[Event]:
    """What one side does, in the face of the other."""
    for start, end in side.units:
        yield Event(Kind.unit, second(start), second(end), side.name)
    for start, end in side.turns:
        yield Event(Kind.turn, second(start), second(end), side.name)
    for number in range(len(side.turns)):
        yield from _entry(side, number, other)
    if side.track.listens:
        for number in range(len(other.turns)):
            yield from _answer(other, number, side)


def _shared(one: Side, other: Side) -> Iterator[Event]:
    """Stretches of overlap and of silence; a pause is silence that a side which spoke before goes on after."""
    state = one.sounds + 2 * other.sounds.astype(np.int8)
    for start, end in spans(state == 3):
        yield Event(Kind.overlap, second(start), second(end))
    for start, end in spans(state == 0):
        times = second(start), second(end)
        if end - start >= window(DEAD_AIR):
            yield Event(Kind.dead_air, *times)
        if start == 0 or end == len(state):
            continue
        before, after = state[start - 1], state[end]
        if not before & after:
            yield Event(Kind.gap, *times, one.name if after == 1 else other.name)
        for bit, side in ((1, one), (2, other)):
            if before & after & bit:
                yield Event(Kind.pause, *times, side.name)


def _transfers(one: Side, other: Side) -> Iterator[Event]:
    """The floor goes over where one side has sounded alone, and next the other does."""
    alone = sorted(
        [(start, end, one, other) for start, end in spans(one.sounds & ~other.sounds)]
        + [(start, end, other, one) for start, end in spans(other.sounds & ~one.sounds)],
        key=lambda found: int(found[0]),
    )
    for (_, last, giver, _), (first, _, taker, _) in pairwise(alone):
        if giver is taker:
            continue
        end = giver.units[_unit_at(giver, last - 1), 1]
        start = taker.units[_unit_at(taker, first), 0]
        times = sorted((second(start), second(end)))
        yield Event(Kind.transfer, times[0], times[1], taker.name, offset=second(start - end))


def _unit_at(side: Side, window: int) -> int:
    """The number of the unit that a window lies in, or of the last one before it; -1 where there is none."""
    return int(np.searchsorted(side.units[:, 0], window, side="right")) - 1


def _entry(side: Side, number: int, other: Side) -> Iterator[Event]:
    """A turn that begins while the other side speaks: a back-channel, or an interruption with what came of it."""
    start, end = (int(place) for place in side.turns[number])
    unit = _unit_at(other, start)
    if unit < 0 or start >= other.units[unit, 1]:
        return
    if _is_backchannel(side, number, other):
        yield Event(Kind.backchannel, second(start), second(end), side.name)
        return
    begun, ends = other.units[unit]
    if start - begun < window(INSIDE) or ends - start < window(INSIDE):
        return
    yield Event(Kind.interruption, second(start), second(min(end, ends)), side.name)
    if other.track.listens and not side.is_short(number, BACKCHANNEL_WORDS):
        yield from _yield(start, other)


def _is_backchannel(side: Side, number: int, other: Side) -> bool:
    """Whether a turn is short, and the other side speaks when it begins and still when it has ended."""
    start, end = side.turns[number]
    goes_on = other.sounds[start] and other.sounds[min(end, len(other.sounds) - 1)]
    return bool(goes_on) and side.is_short(number, BACKCHANNEL_WORDS)


def _yield(start: int, side: Side) -> Iterator[Event]:
    """Whether a side that is interrupted at `start` ends its turn in time; nothing if the call ends before."""
    turn = int(np.searchsorted(side.turns[:, 0], start, side="right")) - 1
    end, limit = int(side.turns[turn, 1]), start + window(YIELD_WITHIN)
    if end <= limit and end < len(side.sounds):
        yield Event(Kind.yielding, second(start), second(end), side.name, second(end - start), success=True)
    elif limit < len(side.sounds):
        yield Event(Kind.yielding, second(start), second(limit), side.name, success=False)


def _answer(side: Side, number: int, other: Side) -> Iterator[Event]:
    """What `other` answers to a turn: the first turn that it begins after that began, and that lasts longer.

    It has until the next turn begins. A back-channel wants no answer, and where the call ends before `TURN_PAUSE` has
    gone by nothing can be told.
    """
    start, end = (int(place) for place in side.turns[number])
    if _is_backchannel(side, number, other):
        return
    is_last = number + 1 == len(side.turns)
    until = len(side.sounds) if is_last else int(side.turns[number + 1, 0])
    first = max(
        int(np.searchsorted(other.turns[:, 0], start)), int(np.searchsorted(other.turns[:, 1], end, side="right"))
    )
    after = int(np.searchsorted(other.turns[:, 0], until))
    if first >= after:
        if until - end >= window(TURN_PAUSE):
            times = second(end), second(until)
            yield Event(Kind.response, *times, other.name, success=False)
            yield Event(Kind.takeover, *times, other.name, success=False)
        return
    begun = int(other.turns[first, 0])
    times = min(second(end), second(begun)), max(second(end), second(begun))
    yield Event(Kind.response, *times, other.name, second(begun - end), success=True)
    yield Event(Kind.takeover, *times, other.name, success=_takes_over(other, range(first, after)))


def _takes_over(side: Side, answer: range) -> bool:
    """Whether the turns of an answer take the floor: no words do not, nor does a short answer of few words."""
    seconds = sum(int(end - start) for start, end in side.turns[answer.start : answer.stop])
    if side.words is None:
        return seconds >= window(SHORT)
    count = sum(side.words[turn] for turn in answer)
    return count > 0 and (seconds >= window(SHORT) or count > NO_TAKEOVER_WORDS)
