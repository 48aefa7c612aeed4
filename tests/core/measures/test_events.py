"""Calls made by hand, with what happens in them known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.measures.events import Event, Kind, events_of, sides_of
from personaplex.core.measures.tracks import Mask, Track, second, spans
from tests.core.measures.masks import agent, caller, mask


def events(one: Track, other: Track, *kinds: Kind) -> list[Event]:
    """A call's events of some kinds."""
    return [event for event in events_of(*sides_of(one, other)) if event.kind in kinds]


def times(found: list[Event]) -> list[tuple[float, float, str]]:
    return [(event.start, event.end, event.side) for event in found]


def test_silence_within_a_side_is_a_pause_and_between_sides_a_gap() -> None:
    heard = caller((1, 2), (2.4, 3), length=10), agent((3.5, 5), (6, 7), length=10)
    assert times(events(*heard, Kind.pause)) == [(2, 2.4, "caller"), (5, 6, "agent")]
    assert times(events(*heard, Kind.gap)) == [(3, 3.5, "agent")]
    assert times(events(*heard, Kind.dead_air)) == [(7, 10, "")]


def test_a_pause_that_the_other_speaks_in_is_none() -> None:
    heard = caller((1, 2), (3, 4), length=5), agent((1.5, 3.5), length=5)
    assert times(events(*heard, Kind.pause, Kind.gap)) == []
    assert times(events(*heard, Kind.overlap)) == [(1.5, 2, ""), (3, 3.5, "")]


def test_silence_after_both_that_one_goes_on_after_is_its_pause() -> None:
    heard = caller((1, 2), length=5), agent((1.5, 2), (2.5, 3), length=5)
    assert times(events(*heard, Kind.pause, Kind.gap)) == [(2, 2.5, "agent")]


def test_the_floor_goes_over_with_a_gap_an_overlap_or_neither() -> None:
    heard = caller((0, 1), (3, 4), (5, 6), length=7), agent((1.3, 3.2), (4, 5), length=7)
    found = events(*heard, Kind.transfer)
    assert [(event.side, event.offset) for event in found] == [
        ("agent", 0.3),
        ("caller", -0.2),
        ("agent", 0.0),
        ("caller", 0.0),
    ]
    assert (found[1].start, found[1].end) == (3, 3.2)


def test_the_floor_does_not_go_over_to_who_is_heard_within_the_others_speech() -> None:
    assert events(caller((0, 4), length=5), agent((1, 2), length=5), Kind.transfer) == []


def test_answers_are_measured_from_the_end_of_the_callers_turn() -> None:
    heard = caller((0, 2), (6, 8), (12, 14), length=20), agent((2.4, 5), (7.5, 10), length=20)
    found = events(*heard, Kind.response)
    assert [(event.start, event.end, event.offset, event.success) for event in found] == [
        (2, 2.4, 0.4, True),
        (7.5, 8, -0.5, True),
        (14, 20, None, False),
    ]


def test_who_has_talked_all_along_has_not_answered() -> None:
    found = events(caller((2, 4), length=9), agent((0, 8), length=9), Kind.response)
    assert [event.success for event in found] == [False]


def test_a_turn_that_the_call_ends_after_asks_for_nothing() -> None:
    assert events(caller((0, 4), length=4.9), agent(length=4.9), Kind.response, Kind.takeover) == []


def test_a_recording_answers_nobody() -> None:
    heard = caller((2, 3), length=9), agent((0, 1.5), (4, 5), length=9)
    assert {event.side for event in events(*heard, Kind.response, Kind.takeover, Kind.yielding)} == {"agent"}


@pytest.mark.parametrize(
    ("spoken", "words", "taken"),
    [
        ([(2.5, 3.4)], [(2.5, 2.7), (2.8, 3.0), (3.1, 3.3)], False),  # 0.9 s and three words
        ([(2.5, 3.4)], [(2.5, 2.6), (2.7, 2.8), (2.9, 3.0), (3.1, 3.3)], True),  # four words
        ([(2.5, 3.5)], [(2.5, 2.7)], True),  # a second
        ([(2.5, 5)], [], False),  # no word
        ([(2.5, 5)], None, True),  # nobody knows its words
        ([(2.5, 3)], None, False),
        ([(2.5, 3), (5, 5.6)], [(2.5, 2.7), (5, 5.3)], True),  # 1.1 s in two turns
    ],
)
def test_an_answer_takes_the_floor_unless_it_is_short_or_wordless(
    spoken: list[tuple[float, float]], words: list[tuple[float, float]] | None, taken: bool
) -> None:
    heard = caller((0, 2), length=9), agent(*spoken, length=9, words=words)
    assert [event.success for event in events(*heard, Kind.takeover)] == [taken]


@pytest.mark.parametrize(
    ("spoken", "words", "kind"),
    [
        ((2, 2.9), [(2, 2.2), (2.3, 2.5)], Kind.backchannel),
        ((2, 2.9), None, Kind.backchannel),
        ((2, 2.9), [(2, 2.2), (2.3, 2.5), (2.6, 2.8)], Kind.interruption),  # three words
        ((2, 3), [(2, 2.2)], Kind.interruption),  # a second
        ((3.5, 4.2), [(3.5, 3.7)], Kind.interruption),  # it outlasts the caller
        ((0.1, 2), None, None),  # both begin
        ((3.9, 6), None, None),  # just before the end
        ((3.8, 6), None, Kind.interruption),
        ((4, 6), None, None),
    ],
)
def test_a_turn_within_the_others_speech_is_a_back_channel_or_an_interruption(
    spoken: tuple[float, float], words: list[tuple[float, float]] | None, kind: Kind | None
) -> None:
    found = events(caller((0, 4), length=9), agent(spoken, length=9, words=words), Kind.backchannel, Kind.interruption)
    assert [(event.kind, event.side, event.start) for event in found] == ([(kind, "agent", spoken[0])] if kind else [])


@pytest.mark.parametrize(
    ("spoken", "found"),
    [
        ([(0, 3.5)], [(True, 1.5)]),
        ([(0, 4)], [(True, 2.0)]),
        ([(0, 4.02)], [(False, None)]),
        ([(0, 3), (3.5, 6)], [(False, None)]),  # a pause is not giving way
        ([(0, 3), (4, 6)], [(True, 1.0)]),
        ([(0, 2.1)], []),  # it was about to end
        ([(1.9, 6)], []),  # both begin
    ],
)
def test_giving_way_to_a_caller_who_breaks_in(
    spoken: list[tuple[float, float]], found: list[tuple[bool, float | None]]
) -> None:
    heard = caller((2, 5), length=9), agent(*spoken, length=9)
    assert [(event.success, event.offset) for event in events(*heard, Kind.yielding)] == found


def test_what_the_call_ends_in_the_middle_of_is_not_judged() -> None:
    assert events(caller((2, 3.9), length=3.9), agent((0, 3.9), length=3.9), Kind.yielding) == []


def test_nobody_need_give_way_to_a_back_channel() -> None:
    assert events(caller((2, 2.8), length=9), agent((0, 6), length=9), Kind.yielding, Kind.interruption) == []


def test_dead_air_is_two_seconds_of_silence_wherever_it_is() -> None:
    heard = caller((2, 3), (4.98, 6), length=9), agent((8, 8.2), length=9)
    assert times(events(*heard, Kind.dead_air)) == [(0, 2, ""), (6, 8, "")]


def test_nothing_happens_in_silence_but_silence() -> None:
    assert [event.kind for event in events_of(*sides_of(caller(length=5), agent(length=5)))] == [Kind.dead_air]
    assert events_of(*sides_of(caller(length=0), agent(length=0))) == []


def test_tracks_of_unequal_length_are_filled_up_with_silence() -> None:
    assert times(events(caller((0, 1), length=1), agent(length=9), Kind.dead_air)) == [(1, 9, "")]


def test_two_tracks_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tracks are called agent"):
        sides_of(agent(length=1), agent(length=1))


@st.composite
def talks(draw: st.DrawFn) -> tuple[Mask, Mask]:
    """Two masks of one length, of stretches of many lengths."""
    made = []
    for _ in range(2):
        lengths = draw(st.lists(st.integers(1, 120), max_size=14))
        made.append(np.repeat(np.arange(len(lengths)) % 2 == draw(st.integers(0, 1)), lengths))
    windows = max(1, *map(len, made))
    return tuple(np.pad(one, (0, windows - len(one))) for one in made)  # type: ignore[return-value]


@given(talks())
def test_swapping_the_sides_swaps_all_that_is_theirs(heard: tuple[Mask, Mask]) -> None:
    one, other = (events_of(*sides_of(Track("a", first), Track("b", then))) for first, then in (heard, heard[::-1]))
    swapped = {"a": "b", "b": "a", "": ""}
    assert _sorted(one) == _sorted([replace(event, side=swapped[event.side]) for event in other])


@given(talks(), st.integers(1, 300))
def test_what_begins_later_happens_later(heard: tuple[Mask, Mask], windows: int) -> None:
    late = [np.pad(one, (windows, 0)) for one in heard]
    before, after = (events_of(*sides_of(Track("a", first), Track("b", then))) for first, then in (heard, late))
    speaks = any(event.kind is Kind.unit for event in before)
    first = min((event.start for event in before if event.kind is Kind.unit), default=0.0)
    moved = [
        replace(event, start=round(event.start + second(windows), 2), end=round(event.end + second(windows), 2))
        for event in before
        if not (event.kind is Kind.dead_air and event.start < first) and speaks
    ]
    begun = first + second(windows)
    assert _sorted(moved) == _sorted([event for event in after if event.start >= round(begun, 2) and speaks])


@given(talks())
def test_speech_overlap_and_silence_add_up_to_the_call(heard: tuple[Mask, Mask]) -> None:
    one, other = sides_of(Track("a", heard[0]), Track("b", heard[1]))
    found = events_of(one, other)

    def total(kind: Kind) -> float:
        return sum(event.end - event.start for event in found if event.kind is kind)

    silent = spans(~(one.sounds | other.sounds))
    silence = sum(second(end) - second(start) for start, end in silent)
    assert total(Kind.unit) - total(Kind.overlap) + silence == pytest.approx(second(len(one.sounds)))
    inner = [(second(start), second(end)) for start, end in silent if start > 0 and end < len(one.sounds)]
    told = {(event.start, event.end) for event in found if event.kind in (Kind.pause, Kind.gap)}
    assert sorted(told) == inner


@given(talks())
def test_events_are_what_their_kind_says(heard: tuple[Mask, Mask]) -> None:
    found = events_of(*sides_of(Track("a", heard[0]), Track("b", heard[1])))
    for event in found:
        assert event.start <= event.end
        if event.kind is Kind.transfer:
            assert event.end - event.start == pytest.approx(abs(event.offset or 0))
    for side in ("a", "b"):
        floor = [event.side for event in found if event.kind is Kind.transfer]
        assert all(one != then for one, then in pairwise(floor)), side
        assert len([e for e in found if e.kind is Kind.response and e.side == side]) == len(
            [e for e in found if e.kind is Kind.takeover and e.side == side]
        )


def _sorted(found: list[Event]) -> list[Event]:
    return sorted(found, key=lambda event: (event.kind, event.start, event.end, event.side))


def test_masks_by_hand_are_what_they_say() -> None:
    assert mask((0.1, 0.2), length=0.3).tolist() == [False] * 5 + [True] * 5 + [False] * 5
