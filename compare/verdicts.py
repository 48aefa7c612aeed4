"""What a comparison finds: for every item verdicts, the first difference, how much is in common, what was asked."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex.core.errors import UsageError

if TYPE_CHECKING:
    from personaplex.core.measures.rows import Call  # which imports numpy; the command line's options need none


class Rung(StrEnum):
    """What is compared, the strictest first: each follows from the ones before it."""

    tokens = "tokens"
    samples = "samples"
    words = "words"
    timing = "timing"
    loudness = "loudness"


class Outcome(StrEnum):
    """How a rung came out; `unknown` where a side doesn't hold what it takes to tell."""

    same = "same"
    different = "different"
    unknown = "unknown"


class Level(StrEnum):
    """The strictest rung at which a difference fails; what is stricter is told and forgiven.

    Samples are the strictest: another machine may decode the same tokens to samples that differ in rounding.
    """

    samples = "samples"
    tokens = "tokens"
    words = "words"
    timing = "timing"


class Status(StrEnum):
    """Whether an item could be compared.

    `missing` is in the expected run alone, `extra` in the other alone. `broken` has an answer on one side alone,
    `failed` on neither.
    """

    compared = "compared"
    missing = "missing"
    extra = "extra"
    broken = "broken"
    failed = "failed"


@dataclass(frozen=True)
class Tolerances:
    """How far apart is still the same: word error rate, frames of a word's times, dB, share of frames with speech."""

    word_error_rate: float = 0.0
    frames: int = 1
    loudness_db: float = 1.0
    activity: float = 0.05

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise UsageError(f"the tolerance {name} is {value}", "give a number of 0 or more")


@dataclass(frozen=True)
class Recorded:
    """One item of a run.

    `document` is its transcript, or a golden's part of one; None if it failed, and `failure` then says why. `tokens`
    and `audio` are files, where there are some; a golden holds its tokens in its document. `expect` is what a
    manifest's row asks of the answer. `measures` are of this very answer, where it was measured.
    """

    id: str
    document: Mapping[str, Any] | None = None
    failure: str | None = None
    tokens: Path | None = None
    audio: Path | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    measures: "Call | None" = None


@dataclass(frozen=True)
class Verdict:
    """How a rung came out, and in a phrase why, with its figures (such as `word_error_rate`)."""

    rung: Rung
    outcome: Outcome
    detail: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FirstDifference:
    """The token that was drawn first of all that differ.

    `stream` is "text" or "codebook 0" to "codebook 7", `frame` and `second` its place in the output. `expected` and
    `got` are tokens, None past an answer's end. The words are those around that second on either side.
    """

    frame: int
    second: float
    stream: str
    expected: int | None
    got: int | None
    expected_words: str
    got_words: str


@dataclass(frozen=True)
class IdentityDifference:
    """Something that an answer's bits depend on and that is not the same, by its place: `engine.versions.torch`."""

    name: str
    expected: Any
    got: Any


@dataclass(frozen=True)
class Agreement:
    """How much two answers, or two runs, have in common, counted so that it adds up over calls.

    `same_text` of `text_frames` carry the same text token. In `same_speech` of `speech_frames` both answers speak or
    both are silent; there are none where a transcript is too old to tell. `word_errors` are by `words` expected.
    """

    text_frames: int = 0
    same_text: int = 0
    speech_frames: int = 0
    same_speech: int = 0
    words: int = 0
    word_errors: int = 0

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def text(self) -> float | None:
        """The share of frames with the same text token; None where there are no frames."""
        return self.same_text / self.text_frames if self.text_frames else None

    @property
    def speech(self) -> float | None:
        """The share of frames where both speak or both are silent; None where that isn't known."""
        return self.same_speech / self.speech_frames if self.speech_frames else None

    @property
    def word_error_rate(self) -> float:
        """Errors by expected word; 1 for any word where none was expected."""
        return self.word_errors / self.words if self.words else float(self.word_errors > 0)


@dataclass(frozen=True)
class Expectation:
    """One thing that was asked of the answer, such as `must_say "refund"`, and how it came out."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class ItemComparison:
    """All that is found about one item. `summary` says in a line what is wrong with it, or that nothing is.

    `agreement` is None for an item that couldn't be compared.
    """

    id: str
    status: Status
    fails: bool
    summary: str
    expected: Recorded | None
    got: Recorded | None
    verdicts: tuple[Verdict, ...] = ()
    difference: FirstDifference | None = None
    identity: tuple[IdentityDifference, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    agreement: Agreement | None = None

    @property
    def differs(self) -> bool:
        """Whether any rung does, at whatever level; an item that couldn't be compared has none."""
        return any(verdict.outcome is Outcome.different for verdict in self.verdicts)


@dataclass(frozen=True)
class Comparison:
    """Two runs compared; `expected` and `got` are their names as the user gave them."""

    expected: str
    got: str
    level: Level
    tolerances: Tolerances
    items: tuple[ItemComparison, ...]

    @property
    def fails(self) -> bool:
        """Whether any item fails."""
        return any(item.fails for item in self.items)
