"""Two transcripts beside each other: their words, which of them differ, and which stand at the first difference."""

from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from personaplex.compare.document import words_of
from personaplex.compare.verdicts import Recorded


@dataclass(frozen=True)
class ShownWord:
    """A word and its seconds, whether the other side has another in its place, and whether the answers part here."""

    text: str
    start: float
    end: float
    differs: bool = False
    here: bool = False


def side_by_side(
    expected: Recorded | None, got: Recorded | None, second: float | None
) -> tuple[list[ShownWord], list[ShownWord]]:
    """The words of both sides; `second` is that of the first difference, if there is one.

    A word differs if it is written otherwise. Where a side has no answer, no word of the other is said to differ.
    """
    ours, theirs = _words(expected), _words(got)
    if expected and expected.document and got and got.document:
        _mark_differing(ours, theirs)
    if second is not None:
        _mark_here(ours, second)
        _mark_here(theirs, second)
    return ours, theirs


def _words(side: Recorded | None) -> list[ShownWord]:
    if side is None or side.document is None:
        return []
    return [ShownWord(word["word"], word["start"], word["end"]) for word in words_of(side.document)]


def _mark_differing(ours: list[ShownWord], theirs: list[ShownWord]) -> None:
    matcher = SequenceMatcher(None, [word.text for word in ours], [word.text for word in theirs], autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            ours[start:end] = [replace(word, differs=True) for word in ours[start:end]]
            theirs[other_start:other_end] = [replace(word, differs=True) for word in theirs[other_start:other_end]]


def _mark_here(words: list[ShownWord], second: float) -> None:
    """Mark the word that is spoken at `second`, or else the first one after it."""
    for number, word in enumerate(words):
        if word.end > second:
            words[number] = replace(word, here=True)
            return
