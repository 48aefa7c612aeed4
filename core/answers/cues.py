"""Subtitles: the agent's words in cues that can be read, cut where the speaker would."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from personaplex.core.answers.transcript import Segment, Word

MOST_LETTERS = 42
"""Of a line, as broadcasters have it; a longer word has a line to itself."""
MOST_LINES = 2
MOST_SECONDS = 7.0
PAUSE = 0.16
"""Seconds without sound between two words at which a cue may be cut: two frames."""

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_CLAUSE_END = re.compile(r"[,;:–—、，；：][\"'”’»)\]]*$")


@dataclass(frozen=True)
class Cue:
    """What is shown at a time: one line or two."""

    start: float
    end: float
    speaker: str
    lines: tuple[str, ...]


def cues(segments: Sequence[Segment]) -> Iterator[Cue]:
    """The words of all segments, in order and each once.

    A segment is one cue if it fits. Else it is cut at the last end of a sentence that fits, or at its longest pause or
    the last end of a clause, in the later half of what fits, or else where it is full.
    """
    for segment in segments:
        rest = list(segment.words)
        while rest:
            count = _cut(rest)
            yield _cue(rest[:count], segment.speaker)
            rest = rest[count:]


def _cue(spoken: Sequence[Word], speaker: str) -> Cue:
    start = spoken[0].start
    return Cue(start, min(spoken[-1].end, start + MOST_SECONDS), speaker, _lines([word.word for word in spoken]))


def _cut(spoken: Sequence[Word]) -> int:
    """How many words the next cue takes."""
    most = _fitting(spoken)
    if most == len(spoken):
        return most
    ends = [count for count in range(1, most + 1) if _SENTENCE_END.search(spoken[count - 1].word)]
    if ends:
        return ends[-1]
    later = range(max(1, most // 2), most + 1)
    gaps = {count: round(spoken[count].start - spoken[count - 1].end, 3) for count in later}
    longest = max(later, key=lambda count: (gaps[count], count))
    if gaps[longest] >= PAUSE:
        return longest
    return max((count for count in later if _CLAUSE_END.search(spoken[count - 1].word)), default=most)


def _fitting(spoken: Sequence[Word]) -> int:
    """How many words, one at least, fit into a cue."""
    texts: list[str] = []
    for word in spoken:
        texts.append(word.word)
        if len(texts) > 1 and (word.end - spoken[0].start > MOST_SECONDS or len(_lines(texts)) > MOST_LINES):
            return len(texts) - 1
    return len(texts)


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    """Words in one line, or in two of about the same length; a line each where two don't hold them."""
    whole = " ".join(texts)
    if len(whole) <= MOST_LETTERS or len(texts) == 1:
        return (whole,)
    halves = [(" ".join(texts[:count]), " ".join(texts[count:])) for count in range(1, len(texts))]
    fitting = [two for two in halves if all(map(_fits, two))]
    if fitting:
        return min(fitting, key=lambda two: max(map(len, two)))
    return (*texts,)


def _fits(line: str) -> bool:
    return len(line) <= MOST_LETTERS or " " not in line
