"""Manifest rows: JSON lines or CSV, NeMo's among them, each checked field by field."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from personaplex.core.corpus.expect import Expect
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.sampling.noise import MAX_SEED

CHANNEL = r"^(mix|left|right|[0-9]+)$"

_OBJECTS = frozenset({"fields", "expect"})


class Row(BaseModel):
    """One call. Paths are relative to the manifest's folder; keys that are not known here are passed through."""

    model_config = ConfigDict(extra="allow", frozen=True)

    audio_filepath: str = Field(min_length=1, validation_alias=AliasChoices("audio_filepath", "input_wav"))
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
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

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


def read_rows(text: str, kind: str, name: str) -> list[tuple[int, Row]]:
    """The rows of a manifest's `text`, each with its line; `kind` is "jsonl" or "csv", `name` stands in messages.

    Raises UsageError that lists the first faults by row and field.
    """
    rows: list[tuple[int, Row]] = []
    faults: list[str] = []
    for number, raw in _raw_csv(text) if kind == "csv" else _raw_jsonl(text):
        if isinstance(raw, str):
            faults.append(f"row {number}: {raw}")
            continue
        try:
            rows.append((number, Row.model_validate(raw)))
        except ValidationError as error:
            faults += [f"row {number}, {fault}" for fault in field_faults(error, "the row")]
    if faults:
        raise UsageError(f"{name}: {first_faults(faults)}", "mend these rows; nothing was run")
    if not rows:
        raise UsageError(f"{name}: holds no rows", "give it a row a call, with audio_filepath")
    return rows


def _raw_jsonl(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Numbered objects, or what is wrong with a line."""
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would also split inside strings
        if line.strip():
            try:
                value = _loads(line)
            except ValueError as error:
                yield number, f"not JSON ({error})"
            else:
                yield number, value if isinstance(value, dict) else "not a JSON object"


def _loads(text: str) -> Any:
    """A JSON value that can be written again as UTF-8; raises ValueError."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _loads_cell(name: str, text: str) -> Any:
    try:
        return _loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not a JSON object ({error})") from error


def _raw_csv(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Numbered rows below the header, without their empty cells; `fields` and `expect` are JSON objects in theirs."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                yield reader.line_num, f"has not the header's {len(reader.fieldnames or ())} cells"
                continue
            cells: dict[str, Any] = {key: value for key, value in row.items() if value != ""}
            try:
                yield reader.line_num, cells | {key: _loads_cell(key, cells[key]) for key in _OBJECTS & cells.keys()}
            except ValueError as error:
                yield reader.line_num, str(error)
    except csv.Error as error:
        yield reader.reader.line_num, f"not CSV ({error})"
