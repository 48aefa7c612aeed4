"""What went wrong in a call, by its own tokens and sound: loops, and text and sound that don't go together.

A flag tells where to listen; it is no proof. The thresholds lie above what people say: "no, no, no", "ha ha ha ha",
"thank you, thank you", five zeros of a number.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from personaplex.core.answers.transcript import Word, plain_word, segments
from personaplex.core.config import EPAD, FRAME_RATE, PAD, seconds

REPEATS = {1: 6, 2: 5, 3: 4, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4}
"""How many times in a row a phrase is said at least to be flagged, by its number of words."""
REPLY_WORDS = 2
"""Phrases of so few words answer a caller now and then ("yes", "I see"); such a loop is one only without pauses."""
REPLY_GAP = 2.0
"""Seconds from the start of one word to that of the next that part two replies."""
STUCK_FRAMES = 20
"""A text token for more frames in a row is stuck: a piece of a word takes one."""
SOUND_WAIT = 0.5
"""Seconds after a segment in which its sound must have begun: the sound of a word follows its text at once."""
UNEXPLAINED_SOUND = 5.0
"""Seconds of sound without a piece of text: no word or laugh lasts as long."""
EXCERPT = 60
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class Flag:
    """Something that looks wrong, from `start` to `end` in seconds of the agent's audio."""

    kind: str
    start: float
    end: float
    detail: str


def find_flags(
    text_tokens: Sequence[int] | NDArray[np.integer[Any]],
    spoken: Sequence[Word],
    quiet: Sequence[bool] | NDArray[np.bool_],
) -> list[Flag]:
    """The flags of a call, in order of their start.

    `text_tokens` `[F]` are its text stream, `spoken` its words, and `quiet` `[F]` tells in which frames its audio
    is quiet. The kinds:

    - `repeated_phrase`: up to 8 words over and over, at least as often as `REPEATS` says;
    - `stuck_token`: one text token other than PAD for more than `STUCK_FRAMES` frames;
    - `no_text`: no word in the whole call;
    - `text_without_sound`: a segment that stays quiet until `SOUND_WAIT` after it;
    - `sound_without_text`: more than `UNEXPLAINED_SOUND` of sound between two pieces of text.

    Raises `ValueError` if `text_tokens` and `quiet` differ in length.
    """
    tokens = [int(token) for token in text_tokens]
    if len(tokens) != len(quiet):
        raise ValueError(f"{len(tokens)} text tokens but {len(quiet)} frames of audio")
    sounding = np.flatnonzero(~np.asarray(quiet, dtype=bool))
    found = [
        *_no_text(spoken, len(tokens)),
        *_repeated_phrases(spoken),
        *_stuck_tokens(tokens),
        *_text_without_sound(spoken, sounding, len(tokens)),
        *_sound_without_text(tokens, sounding),
    ]
    return sorted(found, key=lambda flag: flag.start)


def _no_text(spoken: Sequence[Word], frames: int) -> Iterator[Flag]:
    if frames and not spoken:
        yield Flag("no_text", 0.0, seconds(frames), f"no word in {seconds(frames):.2f} s")


def _repeated_phrases(spoken: Sequence[Word]) -> Iterator[Flag]:
    said = [plain_word(word.word) or word.word for word in spoken]
    found: list[tuple[int, int]] = []
    for period, least in REPEATS.items():
        for first, last in _periodic_runs(spoken, said, period):
            times = (last - first) // period
            if times < least:
                continue
            phrase = said[first : first + period]
            # A phrase that is itself a loop, or holds one, was judged with the shorter period.
            if _is_periodic(phrase) or any(first <= start and end <= last for start, end in found):
                continue
            found.append((first, last))
            end = spoken[first + times * period - 1].end
            yield Flag("repeated_phrase", spoken[first].start, end, f'"{" ".join(phrase)}" {times} times')


def _periodic_runs(spoken: Sequence[Word], said: Sequence[str], period: int) -> Iterator[tuple[int, int]]:
    """The longest runs, first word to the one after the last, that say again what was said `period` words before."""
    first = 0
    for place in range(1, len(said) + 1):
        if place == len(said) or (period <= REPLY_WORDS and _is_reply(spoken[place - 1], spoken[place])):
            following = place
        elif place - first >= period and said[place] != said[place - period]:
            following = place - period + 1
        else:
            continue
        yield first, place
        first = following


def _is_reply(before: Word, word: Word) -> bool:
    return word.start - before.start >= REPLY_GAP


def _is_periodic(phrase: list[str]) -> bool:
    return any(phrase[:-period] == phrase[period:] for period in range(1, len(phrase)) if len(phrase) % period == 0)


def _stuck_tokens(tokens: Sequence[int]) -> Iterator[Flag]:
    start = 0
    for token, run in itertools.groupby(tokens):
        length = len(list(run))
        if token != PAD and length > STUCK_FRAMES:
            yield Flag("stuck_token", seconds(start), seconds(start + length), f"token {token} for {length} frames")
        start += length


def _text_without_sound(spoken: Sequence[Word], sounding: NDArray[np.intp], frames: int) -> Iterator[Flag]:
    wait = math.ceil(SOUND_WAIT * FRAME_RATE)
    for segment in segments(spoken):
        first, end = segment.words[0].frame, round(segment.end * FRAME_RATE) + wait
        heard = np.searchsorted(sounding, first) < np.searchsorted(sounding, end)
        # The sound of what is said at the very end of a call may lie after it.
        if not heard and first + wait <= frames:
            yield Flag("text_without_sound", segment.start, segment.end, _excerpt(segment.text))


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1].rstrip() + "…"


def _sound_without_text(tokens: Sequence[int], sounding: NDArray[np.intp]) -> Iterator[Flag]:
    pieces = [frame for frame, token in enumerate(tokens) if token not in (PAD, EPAD)]
    for before, after in itertools.pairwise([-1, *pieces, len(tokens)]):
        first, end = np.searchsorted(sounding, (before + 1, after))
        sound = seconds(end - first)
        if sound > UNEXPLAINED_SOUND:
            start, stop = int(sounding[first]), int(sounding[end - 1]) + 1
            yield Flag("sound_without_text", seconds(start), seconds(stop), f"{sound:.2f} s of sound")
