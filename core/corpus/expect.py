"""What a manifest's row may ask of an answer: words said or not said, and the manners of turn-taking."""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from personaplex.core.measures.figures import parted

_APOSTROPHES = str.maketrans("", "", "'’")
_WORD = re.compile(r"[^\W_]+")


def phrase_words(text: str) -> list[str]:
    """The words of `text` as they are matched: casefolded, without punctuation; `don't` is one, `twenty-four` two."""
    return _WORD.findall(text.casefold().translate(_APOSTROPHES))


def pattern(wanted: str) -> re.Pattern[str] | None:
    """The regular expression of a `/…/`, None for plain words. Raises ValueError for one that is none."""
    if len(wanted) < 2 or not (wanted.startswith("/") and wanted.endswith("/")):
        return None
    try:
        return re.compile(wanted[1:-1], re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{wanted} is no regular expression: {error}") from error


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _matches_something(wanted: str) -> str:
    found = pattern(wanted)
    if wanted == "//" or (found is None and not phrase_words(wanted)):
        raise ValueError(f'"{wanted}" holds no word')
    return wanted


Phrases = Annotated[list[Annotated[str, AfterValidator(_matches_something)]], BeforeValidator(_one_or_more)]


class Bounds(BaseModel):
    """The least and the most that a measure may be; one of them at least."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("gives neither min nor max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is over max {self.max:g}")
        return self

    def holds(self, value: float) -> bool:
        """Whether a value lies within."""
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def __str__(self) -> str:
        ends = ((name, end) for name, end in (("min", self.min), ("max", self.max)) if end is not None)
        return " ".join(f"{name} {end:g}" for name, end in ends)


def _is_measured(name: str) -> str:
    parted(name)
    return name


Measure = Annotated[str, AfterValidator(_is_measured)]


class Expect(BaseModel):
    """What is asked of an answer; what is left out is not asked.

    A phrase of `must_say` and `must_not_say` matches as whole words, whatever their case, punctuation and spacing;
    `/…/` is a regular expression, searched in the text whatever its case. A string alone is taken for a list of it.
    `max_response_delay` and `max_overlap` are seconds. `measures` go by the names of `personaplex.core.measures`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    must_say: Phrases = []
    must_not_say: Phrases = []
    max_response_delay: float | None = Field(default=None, gt=0)
    max_overlap: float | None = Field(default=None, ge=0)
    min_words: int | None = Field(default=None, ge=0)
    measures: dict[Measure, Bounds] = {}
