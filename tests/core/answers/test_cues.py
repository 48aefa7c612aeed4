"""Subtitles that can be read: two lines of 42 letters and 7 s at most, cut at sentences and pauses."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.answers.cues import MOST_LETTERS, MOST_SECONDS, Cue, cues
from personaplex.core.answers.transcript import Word, segments
from personaplex.core.config import seconds


def spoken(text: str, frames: int = 4, pauses: dict[int, int] | None = None) -> list[Word]:
    """The words of `text`, each `frames` long; after the word number n come `pauses[n]` frames of silence."""
    made, frame = [], 0
    for number, word in enumerate(text.split(), start=1):
        made.append(Word(word, seconds(frame), seconds(frame + frames), frame))
        frame += frames + (pauses or {}).get(number, 0)
    return made


def made(text: str, frames: int = 4, pauses: dict[int, int] | None = None) -> list[Cue]:
    return list(cues(segments(spoken(text, frames, pauses))))


def lines(text: str, frames: int = 4) -> list[tuple[str, ...]]:
    return [cue.lines for cue in made(text, frames)]


def test_what_fits_stays_together() -> None:
    assert lines("Hello. How are you?") == [("Hello. How are you?",)]


def test_a_long_line_is_broken_in_the_middle() -> None:
    assert lines("The table for eight is booked for half past six, under the name of Reed.") == [
        ("The table for eight is booked for", "half past six, under the name of Reed.")
    ]


def test_a_cut_comes_at_the_end_of_a_sentence() -> None:
    text = (
        "Your appointment is on Friday at a quarter past eleven. Please bring your new card along. "
        'I asked for it, and she said "no." Then we talked on for a while about that.'
    )
    assert [" ".join(cue) for cue in lines(text, frames=3)] == [
        "Your appointment is on Friday at a quarter past eleven.",
        'Please bring your new card along. I asked for it, and she said "no."',
        "Then we talked on for a while about that.",
    ]


def test_a_cut_comes_at_a_pause_where_no_sentence_ends() -> None:
    text = "and then we went on to the other side of the river where the old mill stands and turned back home"
    found = made(text, frames=3, pauses={12: 4})
    assert " ".join(found[0].lines) == "and then we went on to the other side of the river"
    assert found[1].start - found[0].end == pytest.approx(seconds(4))


def test_a_cut_comes_at_a_clause_where_nobody_pauses() -> None:
    text = "and then we went on to the other side of the river, where the old mill stands and turned back home"
    assert " ".join(lines(text, frames=3)[0]) == "and then we went on to the other side of the river,"


def test_slow_words_are_cut_by_their_time() -> None:
    found = made("one two three four five six", frames=20)
    assert [cue.lines for cue in found] == [("one two three four",), ("five six",)]
    assert all(cue.end - cue.start <= MOST_SECONDS for cue in found)


def test_a_word_that_sounds_on_is_not_shown_for_ever() -> None:
    (cue,) = made("Aaah", frames=200)
    assert (cue.start, cue.end) == (0.0, MOST_SECONDS)


def test_a_word_that_is_too_long_has_a_line_to_itself() -> None:
    long = "x" * 60
    assert lines(f"so {long} then") == [("so", long), ("then",)]


def test_a_long_pause_ends_a_cue() -> None:
    assert [cue.lines for cue in made("Yes. No.", pauses={1: 10})] == [("Yes.",), ("No.",)]


def test_silence_has_no_cues() -> None:
    assert made("") == []


WORDS = st.lists(st.text("abcde.,!", min_size=1, max_size=14), max_size=60)


@given(WORDS, st.integers(1, 12), st.dictionaries(st.integers(1, 60), st.integers(1, 12)))
def test_every_cue_can_be_read_and_no_word_is_lost(words: list[str], frames: int, pauses: dict[int, int]) -> None:
    said = spoken(" ".join(words), frames, pauses)
    found = list(cues(segments(said)))
    assert [word for cue in found for line in cue.lines for word in line.split()] == words
    for cue in found:
        assert 1 <= len(cue.lines) <= 2
        assert all(len(line) <= MOST_LETTERS for line in cue.lines)
        assert 0 < cue.end - cue.start <= MOST_SECONDS + 1e-9
    assert all(before.end <= after.start for before, after in pairwise(found))
    starts = {word.start for word in said}
    assert all(cue.start in starts for cue in found)
