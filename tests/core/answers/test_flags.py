import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.answers.flags import REPEATS, Flag, find_flags
from personaplex.core.answers.transcript import Word
from personaplex.core.config import EPAD, PAD, seconds

SAYS = 500
"""Any text token."""


def said(text: str, first: int = 2, step: int = 3) -> list[Word]:
    """The words of `text`, a new one every `step` frames; each lasts two."""
    starts = itertools.count(first, step)
    return [Word(word, seconds(at), seconds(at + 2), at) for word, at in zip(text.split(), starts, strict=False)]


def stream(spoken: list[Word], frames: int) -> list[int]:
    starts = {word.frame for word in spoken}
    return [SAYS if frame in starts else PAD for frame in range(frames)]


def repeated(text: str, step: int = 3) -> list[tuple[str, float, float]]:
    """Detail, start and end of the repeated phrases in `text`; nothing else is flagged."""
    spoken = said(text, step=step)
    frames = len(spoken) * step + 4
    flags = find_flags(stream(spoken, frames), spoken, [False] * frames)
    assert {flag.kind for flag in flags} <= {"repeated_phrase"}
    return [(flag.detail, flag.start, flag.end) for flag in flags]


def kinds(tokens: list[int], spoken: list[Word], quiet: list[bool], kind: str) -> list[Flag]:
    return [flag for flag in find_flags(tokens, spoken, quiet) if flag.kind == kind]


@pytest.mark.parametrize(
    "text",
    [
        "no no no no no",
        "Ha, ha, ha! Ha ha. That's funny.",
        "bye bye bye",
        "thank you thank you thank you thank you so much",
        "one one two zero zero zero zero zero seven",
        "that is one two one two one two one two right",
        "I don't know. I don't know. I don't know.",
        "It was very very very good, and I was very very happy",
        "How can I help you today? How can I help you today? How can I help you today?",
    ],
)
def test_natural_repetition_is_not_flagged(text: str) -> None:
    assert repeated(text) == []


@pytest.mark.parametrize("length", REPEATS)
def test_phrases_are_flagged_from_their_number_of_repeats_on(length: int) -> None:
    phrase = " ".join("abcdefgh"[:length])
    least = REPEATS[length]
    assert repeated(f"x {' '.join([phrase] * (least - 1))} y") == []
    end = seconds(2 + 3 * least * length + 2)
    assert repeated(f"x {' '.join([phrase] * least)} y") == [(f'"{phrase}" {least} times', 0.4, end)]


def test_phrases_of_more_words_are_not_looked_for() -> None:
    assert repeated(" ".join([*"abcdefghi"] * 9)) == []


def test_case_and_punctuation_do_not_tell_words_apart() -> None:
    [(detail, *_)] = repeated("Thank you! thank you, THANK “you” … thank you thank You.".replace(" …", "…"))
    assert detail == '"thank you" 5 times'


def test_apostrophes_and_hyphens_inside_a_word_stay() -> None:
    [(detail, *_)] = repeated("'Don't uh-huh' " * 5)
    assert detail == '"don\'t uh-huh" 5 times'


def test_words_of_punctuation_alone_count_as_they_are() -> None:
    assert [detail for detail, *_ in repeated("- " * 7)] == ['"-" 7 times']


def test_an_unfinished_repeat_does_not_count() -> None:
    assert repeated("a b c " * 4 + "a b") == [('"a b c" 4 times', 0.16, seconds(2 + 11 * 3 + 2))]


def test_the_shortest_period_wins() -> None:
    assert [detail for detail, *_ in repeated("no " * 40)] == ['"no" 40 times']
    assert [detail for detail, *_ in repeated("oh no " * 20)] == ['"oh no" 20 times']
    assert [detail for detail, *_ in repeated(f"{'no ' * 6}well " * 4)] == ['"no" 6 times'] * 4


def test_every_run_has_its_flag() -> None:
    details = [detail for detail, *_ in repeated("yes " * 6 + "oh " * 7 + "yes " * 8 + "thank you " * 5)]
    assert details == ['"yes" 6 times', '"oh" 7 times', '"yes" 8 times', '"thank you" 5 times']


def test_replies_are_not_a_loop() -> None:
    for reply in ("Mm-hmm. ", "I see. "):
        assert repeated(reply * 8, step=25) == []
        assert len(repeated(reply * 8, step=24)) == 1
    assert len(repeated("Are you there? " * 8, step=25)) == 1


def test_a_pause_starts_a_loop_anew() -> None:
    spoken = [*said("thank you"), *said("thank you " * 5, first=60)]
    [flag] = find_flags(stream(spoken, 100), spoken, [False] * 100)
    assert (flag.start, flag.detail) == (4.8, '"thank you" 5 times')


@pytest.mark.parametrize("token", [912, EPAD])
def test_a_token_over_twenty_frames_is_stuck(token: int) -> None:
    around = [PAD, SAYS]
    spoken = said("well", first=1)

    def stuck(frames: int) -> list[Flag]:
        tokens = [*around, *[token] * frames, *around]
        return kinds(tokens, spoken, [False] * len(tokens), "stuck_token")

    assert stuck(20) == []
    assert stuck(21) == [Flag("stuck_token", 0.16, 1.84, f"token {token} for 21 frames")]


def test_padding_is_never_stuck() -> None:
    assert kinds([PAD] * 200, said("well"), [True] * 200, "stuck_token") == []


def test_a_call_without_words() -> None:
    assert find_flags([PAD] * 25, [], [True] * 25) == [Flag("no_text", 0.0, 2.0, "no word in 2.00 s")]
    assert find_flags([], [], []) == []
    assert find_flags(np.zeros(0, np.int32), [], np.zeros(0, dtype=bool)) == []


def test_a_call_of_sound_alone_has_two_flags() -> None:
    flags = find_flags([PAD] * 63, [], [False] * 63)
    assert [(flag.kind, flag.start, flag.end) for flag in flags] == [
        ("no_text", 0.0, 5.04),
        ("sound_without_text", 0.0, 5.04),
    ]


def without_sound(*sounding: int, text: str = "well then", frames: int = 60) -> list[Flag]:
    """For words in frames 10 to 14, of a call with sound in the frames `sounding`."""
    spoken = said(text, first=10)
    quiet = [frame not in sounding for frame in range(frames)]
    return kinds(stream(spoken, frames), spoken, quiet, "text_without_sound")


def test_text_without_sound() -> None:
    found = [Flag("text_without_sound", 0.8, 1.2, "well then")]
    assert without_sound() == found
    assert without_sound(9) == found
    assert without_sound(10) == []
    assert without_sound(21) == []  # starts 0.48 s after the words
    assert without_sound(22) == found  # starts 0.56 s after them
    assert without_sound(9, 22) == found


def test_sound_after_the_call_s_end_is_not_missed() -> None:
    assert len(without_sound(frames=17)) == 1
    assert without_sound(frames=16) == []


def test_each_segment_is_judged_alone() -> None:
    spoken = [*said("good day", first=5), *said("can I help", first=40), *said("bye", first=80)]
    quiet = [not (40 <= frame < 50) for frame in range(120)]
    flags = kinds(stream(spoken, 120), spoken, quiet, "text_without_sound")
    assert [flag.detail for flag in flags] == ["good day", "bye"]


def test_long_texts_are_shortened() -> None:
    just = "abcde " * 9 + "abcdef"
    assert [flag.detail for flag in without_sound(text=just, frames=200)] == [just]
    assert [flag.detail for flag in without_sound(text=f"{just}g", frames=200)] == ["abcde " * 9 + "abcde…"]


def without_text(sounding: range, frames: int = 200, texts: tuple[int, ...] = (20, 120)) -> list[tuple[float, float]]:
    tokens = [SAYS if frame in texts else EPAD if frame % 2 else PAD for frame in range(frames)]
    quiet = [frame not in sounding for frame in range(frames)]
    flags = kinds(tokens, said("well"), quiet, "sound_without_text")
    return [(flag.start, flag.end) for flag in flags]


def test_sound_without_text() -> None:
    assert without_text(range(40, 102)) == []
    assert without_text(range(40, 103)) == [(3.2, 8.24)]
    assert without_text(range(58, 121)) == []  # the frame of a piece of text is not between two
    assert without_text(range(57, 121)) == [(4.56, 9.6)]
    assert without_text(range(70, 170)) == []
    assert without_text(range(0)) == []


def test_sound_before_the_first_and_after_the_last_text() -> None:
    assert without_text(range(62), texts=(62,)) == []
    assert without_text(range(63), texts=(63,)) == [(0.0, 5.04)]
    assert without_text(range(200), texts=(136, 137)) == [(0.0, 10.88)]
    assert without_text(range(200), texts=(62, 136)) == [(5.04, 10.88), (10.96, 16.0)]


def test_sound_is_summed_over_pauses() -> None:
    tokens, quiet = [SAYS] + [PAD] * 199, [frame % 2 == 0 for frame in range(200)]
    [flag] = kinds(tokens, said("well"), quiet, "sound_without_text")
    assert flag == Flag("sound_without_text", 0.08, 16.0, "8.00 s of sound")


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 text tokens but 1 frames"):
        find_flags([PAD, PAD], [], [True])


def test_arrays_serve_as_lists_do() -> None:
    spoken = said("no " * 9)
    tokens, quiet = stream(spoken, 150), [frame % 3 == 0 for frame in range(150)]
    flags = find_flags(np.array(tokens, np.int32), spoken, np.array(quiet))
    assert flags == find_flags(tokens, spoken, quiet)
    assert {flag.kind for flag in flags} == {"repeated_phrase", "sound_without_text"}
    assert all(type(time) is float for flag in flags for time in (flag.start, flag.end))


@given(
    st.lists(st.tuples(st.sampled_from([PAD, PAD, EPAD, SAYS, 7]), st.integers(1, 70)), max_size=12),
    st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=12),
)
def test_flags_lie_within_the_call_in_order(runs: list[tuple[int, int]], sounds: list[tuple[bool, int]]) -> None:
    tokens = [token for token, length in runs for _ in range(length)]
    pattern = [quiet for quiet, length in sounds for _ in range(length)] or [True]
    quiet = [pattern[frame % len(pattern)] for frame in range(len(tokens))]
    starts = [frame for frame, token in enumerate(tokens) if token in (SAYS, 7)]
    spoken = [Word(f"w{tokens[at]}", seconds(at), seconds(at + 1), at) for at in starts]
    flags = find_flags(tokens, spoken, quiet)
    assert all(0 <= flag.start < flag.end <= seconds(len(tokens)) for flag in flags)
    assert [flag.start for flag in flags] == sorted(flag.start for flag in flags)
    assert ("no_text" in {flag.kind for flag in flags}) == (bool(tokens) and not spoken)


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 9), st.integers(0, 9))
def test_a_repeated_phrase_among_other_words_is_found(length: int, times: int, before: int, after: int) -> None:
    phrase = [f"p{number}" for number in range(length)]
    others = [f"x{number}" for number in range(before + after)]
    found = repeated(" ".join([*others[:before], *phrase * times, *others[before:]]))
    start, end = 2 + 3 * before, 2 + 3 * (before + length * times) - 1
    expected = (f'"{" ".join(phrase)}" {times} times', seconds(start), seconds(end))
    assert found == ([expected] if times >= REPEATS[length] else [])
