"""Scripts of what a caller says: JSON lines with turns and pauses, or plain text, a turn a line."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from personaplex.core.corpus.json_rows import json_rows
from personaplex.core.corpus.manifest import checked_rows, number_as_text
from personaplex.core.corpus.naming import check_unique, id_fault
from personaplex.core.corpus.raw import STDIN, Raw, manifest_text
from personaplex.core.errors import UsageError

LONGEST_PAUSE = 600.0  # seconds
BREAKS_IN = ">"

_PAUSE = re.compile(r"\[\s*([0-9]+(?:\.[0-9]+)?)\s*s?\s*\]")

Seconds = Annotated[float, Field(ge=0, le=LONGEST_PAUSE)]
Text = Annotated[str, Field(min_length=1)]


class Turn(BaseModel):
    """What is said in one go, `pause` seconds after the turn before; `at` puts its start at a time of the recording.

    `breaks_in` says that the agent is meant to be speaking then; it changes no sound.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    say: Text
    pause: Seconds | None = None
    at: Seconds | None = None
    breaks_in: bool = False

    @model_validator(mode="after")
    def _placed_once(self) -> Self:
        if self.pause is not None and self.at is not None:
            raise ValueError("pause and at exclude each other")
        return self


def _turn(value: Any) -> Any:
    return {"say": value} if isinstance(value, str) else value


class Script(BaseModel):
    """One caller: what is said in what voice of the synthesiser. `lead_in` and `tail` are seconds of silence around it.

    Keys that are not known here go on into the manifest that is made, such as `role` or `voice_prompt`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    id: Annotated[Text | None, BeforeValidator(number_as_text)] = None
    turns: list[Annotated[Turn, BeforeValidator(_turn)]] = Field(min_length=1)
    voice: Text | None = None
    lead_in: Seconds | None = None
    tail: Seconds | None = None

    @property
    def passed_through(self) -> dict[str, Any]:
        """The keys that are the manifest's."""
        return dict(self.model_extra or {})


KNOWN = frozenset(Script.model_fields)


@dataclass(frozen=True)
class NamedScript:
    """A script with the id that its recording is called by; `where` says where it stands."""

    id: str
    where: str
    script: Script


@dataclass(frozen=True)
class Scripts:
    """The scripts of a file, what is wrong with the others, and what is odd about their keys."""

    good: list[NamedScript]
    faults: list[str]
    warnings: list[str]


def read_scripts(source: str) -> Scripts:
    """The scripts in a `.jsonl`, a `.json`, a `.txt`, a folder of such texts, or JSONL on standard input (`-`).

    A script at fault is left out alone. Raises UsageError for a source that can't be read or holds none.
    """
    path = Path(source)
    if source != STDIN and path.is_dir():
        files = sorted(path.glob("*.txt"))
        raws = [_spoken(file, number) for number, file in enumerate(files, start=1)]
        mend = "put .txt files into it, or name a .jsonl"
    elif path.suffix.lower() == ".txt":
        raws, mend = [_spoken(path, 1)], ""
    elif source == STDIN or path.suffix.lower() in {".jsonl", ".json"}:
        name = "standard input" if source == STDIN else source
        raws, mend = list(json_rows(manifest_text(source), name)), "give it a row a caller, with turns"
    else:
        raise UsageError(f"{source}: not a .jsonl, .json or .txt", "name one of these, a folder of .txt, or -")
    if not raws:
        raise UsageError(f"{source}: holds no scripts", mend)
    rows = checked_rows(raws, Script, KNOWN, frozenset(), source)
    good, faults = [], [row.fault for row in rows.bad]
    for number, script in rows.good:
        one = NamedScript(script.id or f"caller-{number:04d}", f"{source}: row {number}", script)
        fault = id_fault(one.id)
        if fault is None:
            good.append(one)
        else:
            faults.append(f"{one.where}: {fault[0]}")
    check_unique(good, "scripts")
    return Scripts(good, faults, rows.warnings)


def _spoken(path: Path, number: int) -> Raw:
    """A text's script: a turn a line, `> ` before one that breaks in, `[2.5]` for the pause before the next.

    Lines that start with # and empty lines count for nothing.
    """
    turns: list[dict[str, Any]] = []
    pause: float | None = None
    for line in manifest_text(str(path)).splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _PAUSE.fullmatch(line)
        if found:
            pause = (pause or 0.0) + float(found[1])
            continue
        turns.append(
            {"say": line.removeprefix(BREAKS_IN).strip(), "pause": pause, "breaks_in": line.startswith(BREAKS_IN)}
        )
        pause = None
    return Raw(number, {"id": path.stem, "turns": turns})
