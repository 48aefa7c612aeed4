"""Words side by side: which of an answer's words are those of the other, by the alignment that word error rates use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from personaplex.compare.document import words_of
from personaplex.core.answers.transcript import plain_word


@dataclass(frozen=True)
class Spoken:
    """A word as it is compared - casefolded, with no punctuation at its ends - and when it starts, in seconds."""

    word: str
    start: float


@dataclass(frozen=True)
class Alignment:
    """`pairs` are the words that both answers have, in order; `expected` and `got` count all words of a side."""

    pairs: tuple[tuple[Spoken, Spoken], ...]
    expected: int
    got: int
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def errors(self) -> int:
        """How many words were put in another's place, in or away."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def error_rate(self) -> float:
        """Errors by expected word; 1 for any word where none was expected."""
        return self.errors / self.expected if self.expected else float(self.got > 0)


def spoken(document: Mapping[str, Any]) -> list[Spoken]:
    """A transcript's words as they are compared; a word of nothing but punctuation is none."""
    found = [Spoken(plain_word(word["word"]), word["start"]) for word in words_of(document)]
    return [word for word in found if word.word]


def align(expected: list[Spoken], got: list[Spoken]) -> Alignment:
    """The alignment with the fewest errors."""
    ours, theirs = [word.word for word in expected], [word.word for word in got]
    counts = len(ours), len(theirs)
    if ours == theirs:
        return Alignment(tuple(zip(expected, got, strict=True)), *counts)
    if not ours or not theirs:
        return Alignment((), *counts, insertions=len(theirs), deletions=len(ours))
    import jiwer  # slow to import, and needed for words that differ alone

    found = jiwer.process_words(" ".join(ours), " ".join(theirs))
    pairs = [
        pair
        for chunk in found.alignments[0]
        if chunk.type == "equal"
        for pair in zip(
            expected[chunk.ref_start_idx : chunk.ref_end_idx],
            got[chunk.hyp_start_idx : chunk.hyp_end_idx],
            strict=True,
        )
    ]
    return Alignment(tuple(pairs), *counts, found.substitutions, found.insertions, found.deletions)
