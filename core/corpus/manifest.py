"""Manifest rows: JSON or CSV, NeMo's among them, each checked field by field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from personaplex.core.corpus.csv_rows import Columns, csv_rows
from personaplex.core.corpus.expect import Expect
from personaplex.core.corpus.json_rows import json_rows
from personaplex.core.corpus.keys import meant
from personaplex.core.corpus.raw import Raw
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults, shown
from personaplex.core.sampling.noise import MAX_SEED

CHANNEL = r"^(mix|left|right|[0-9]+)$"
PATHS = ("audio_filepath", "input_wav")

_OBJECTS = frozenset({"fields", "expect"})
_WHOLE_NUMBER = re.compile(r"([0-9]+)\.0+")  # as pandas writes a column of numbers with a gap in it


def number_as_text(value: Any) -> Any:
    """A whole number as text; anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Row(BaseModel):
    """One call. Paths are relative to the manifest's folder; keys that are not known here are passed through."""

    model_config = ConfigDict(extra="allow", frozen=True)

    audio_filepath: str = Field(min_length=1, validation_alias=AliasChoices(*PATHS))
    id: str | None = Field(default=None, min_length=1)
    voice_prompt: str | None = None
    text_prompt: str | None = None
    text_prompt_file: str | None = None
    role: str | None = None
    fields: dict[str, str] = Field(default_factory=dict)
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    channel: str | None = Field(default=None, pattern=CHANNEL)
    duration: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    offset: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    expect: Expect | None = None

    @field_validator("id", "channel", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return number_as_text(value)

    @field_validator("channel", mode="before")
    @classmethod
    def _without_a_fraction(cls, value: Any) -> Any:
        whole = _WHOLE_NUMBER.fullmatch(value) if isinstance(value, str) else None
        return whole[1] if whole else value

    @field_validator("audio_filepath", "text_prompt_file")
    @classmethod
    def _names_a_file(cls, value: str | None) -> str | None:
        if value is not None and "\0" in value:
            raise ValueError("holds a NUL, which no path can")
        return value

    @property
    def asked(self) -> dict[str, Any] | None:
        """What `expect` says, as the user wrote it; None without one."""
        return None if self.expect is None else self.expect.model_dump(exclude_unset=True)

    @property
    def passed_through(self) -> dict[str, Any]:
        """The keys that are the user's own."""
        return dict(self.model_extra or {})


KNOWN = frozenset({*Row.model_fields, *PATHS})


@dataclass(frozen=True)
class BadRow:
    """A row that can't be run: `keys` is what could be read of it, `fault` says which row it is and what is wrong."""

    number: int
    keys: Mapping[str, Any]
    fault: str


Kind = TypeVar("Kind", bound=BaseModel)


@dataclass(frozen=True)
class Rows(Generic[Kind]):
    """A manifest's rows: the good ones with their numbers, the bad ones, and what is odd about its keys."""

    good: list[tuple[int, Kind]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_rows(text: str, kind: str, name: str) -> Rows[Row]:
    """The rows of a manifest's `text`; `kind` is "csv" or else JSON, `name` stands in messages.

    Raises UsageError for a text that makes no sense as a whole, and for one without rows.
    """
    columns = Columns(KNOWN, PATHS, _OBJECTS)
    raws = list(csv_rows(text, name, columns) if kind == "csv" else json_rows(text, name))
    if not raws:
        raise UsageError(f"{name}: holds no rows", "give it a row a call, with audio_filepath")
    return checked_rows(raws, Row, KNOWN, _OBJECTS, name)


def checked_rows(
    raws: list[Raw], kind: type[Kind], known: frozenset[str], objects: frozenset[str], name: str
) -> Rows[Kind]:
    """Rows of a `kind`, field by field; `known` are its keys, of which `objects` hold objects."""
    rows: Rows[Kind] = Rows(
        warnings=[f"{name}: {warning}" for warning in (*_near_misses(raws, known), *_no_numbers(raws))]
    )
    for raw in raws:
        keys, row = _without_nulls(raw.keys, known, objects), f"{name}: row {raw.number}"
        if raw.fault is not None:
            rows.bad.append(BadRow(raw.number, keys, f"{row}: {raw.fault}"))
            continue
        try:
            rows.good.append((raw.number, kind.model_validate(keys)))
        except ValidationError as error:
            rows.bad.append(BadRow(raw.number, keys, f"{row}, {first_faults(field_faults(error, 'the row'))}"))
    return rows


def _without_nulls(keys: Mapping[str, Any], known: frozenset[str], objects: frozenset[str]) -> dict[str, Any]:
    """A row without the keys that are null; of the user's own ones, nulls too are passed through."""
    kept = {key: value for key, value in keys.items() if key not in known or value is not None}
    for key in objects & kept.keys():
        if isinstance(kept[key], dict):
            kept[key] = {name: value for name, value in kept[key].items() if value is not None}
    return kept


def _near_misses(raws: list[Raw], known: frozenset[str]) -> list[str]:
    rows: dict[tuple[str, str], list[int]] = {}
    for raw in raws:
        for key in raw.keys.keys() - known:
            likely = meant(key, known, raw.keys.keys())
            if likely is not None:
                rows.setdefault((key, likely), []).append(raw.number)
    return [
        f'"{shown(key)}" ({_placed(numbers)}) is not a key of manifests, and changes nothing: is {likely} meant?'
        for (key, likely), numbers in sorted(rows.items(), key=lambda one: (one[1], one[0]))
    ]


def _no_numbers(raws: list[Raw]) -> list[str]:
    rows: dict[str, list[int]] = {}
    for raw in raws:
        for key in raw.no_numbers:
            rows.setdefault(key, []).append(raw.number)
    return [f'"{shown(key)}" is NaN in {_placed(numbers)}, taken for null' for key, numbers in rows.items()]


def _placed(numbers: list[int]) -> str:
    return f"row {numbers[0]}" + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")
