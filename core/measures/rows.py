"""Measures as a run keeps them: `measures.jsonl`, a line a call with its events, and what is read of it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.measures.events import Event
from personaplex.core.measures.figures import figures
from personaplex.core.measures.pooled import Figure, Measured

MEASURES = "measures.jsonl"
SCHEMA = "personaplex.measures/1"
MEND = "measure the run again with `personaplex measure`"

_CHECKED = ConfigDict(extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True)
class Made:
    """What a call's measures were made of, and what it is counted among.

    `vad` is what told speech from silence; `shift` how many seconds the agent's track was moved earlier; the hashes
    are those of the answer's samples and of the recording's file. A conversation has two voices, roles and seeds in
    one text, and no recording.
    """

    __pydantic_config__ = _CHECKED

    id: str
    voice: str
    role: str
    seed: int | str
    vad: str
    shift: float
    pcm_sha256: str
    input_sha256: str | None


@dataclass(frozen=True)
class Call:
    """A measured call."""

    made: Made
    measured: Measured

    @property
    def row(self) -> dict[str, Any]:
        """Its line."""
        call = self.measured
        return {
            "schema": SCHEMA,
            "status": "measured",
            **asdict(self.made),
            "duration": call.duration,
            "sides": list(call.sides),
            "listening": list(call.listening),
            "words": dict(call.words),
            "figures": figures_document(figures([call])),
            "events": [event_document(event) for event in call.events],
        }


def failed_row(name: str, error: PersonaplexError) -> dict[str, Any]:
    """The line of a call that can't be measured."""
    told = {"kind": type(error).__name__, "what": error.what, "mend": error.mend}
    return {"schema": SCHEMA, "status": "failed", "id": name, "error": told}


def figures_document(found: Mapping[str, Figure]) -> dict[str, Any]:
    """Figures as JSON has them: `few` marks those of too few events to say much."""
    return {name: {"value": one.value, "count": one.count, "few": one.is_of_few} for name, one in found.items()}


def event_document(event: Event) -> dict[str, Any]:
    """An event as JSON has it, without what it doesn't say."""
    return {name: value for name, value in vars(event).items() if value not in (None, "")}


@dataclass(frozen=True)
class _Row:
    __pydantic_config__ = _CHECKED

    duration: Annotated[float, Field(gt=0)]
    sides: tuple[str, str]
    listening: tuple[str, ...]
    words: dict[str, int | None]
    events: Sequence[Event]


_ROW, _MADE = TypeAdapter(_Row), TypeAdapter(Made)


def read_measures(folder: Path) -> dict[str, Call]:
    """The calls that were measured in a run's folder, by id; nothing where there are none.

    Raises UsageError for a file that is not of this kind.
    """
    path = folder / MEASURES
    if not path.is_file():
        return {}
    found = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                row = _parsed(line, f"{path}, line {number}")
                if row.get("status") == "measured":
                    call = _call(row, f"{path}, line {number}")
                    found[call.made.id] = call
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}", "make it readable to this user") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text", MEND) from error
    return found


def _parsed(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not whole JSON ({error})", MEND) from error
    if not isinstance(row, dict) or row.get("schema") != SCHEMA:
        raise UsageError(f'{where}: not a row of measures ("{SCHEMA}")', MEND)
    return row


def _call(row: Mapping[str, Any], where: str) -> Call:
    try:
        made, parts = _MADE.validate_python(row), _ROW.validate_python(row)
    except ValidationError as error:
        raise UsageError(f"{where}: can't be used: {first_faults(field_faults(error))}", MEND) from error
    return Call(made, Measured(parts.duration, parts.sides, parts.listening, parts.words, parts.events))
