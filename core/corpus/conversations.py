"""A manifest of conversations: JSON, a row each, checked field by field."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from personaplex.core.corpus.items import Refused
from personaplex.core.corpus.json_rows import json_rows
from personaplex.core.corpus.listing import distinct, numbered
from personaplex.core.corpus.manifest import BadRow, checked_rows, number_as_text
from personaplex.core.corpus.naming import check_unique, id_fault
from personaplex.core.corpus.raw import STDIN, manifest_text
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.sampling.noise import MAX_SEED

MEND_ROW = "mend the row, and run the same command again"
LONGEST = 3600.0  # seconds
LATEST = 5.0  # seconds that a line may delay

Name = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SamplingRow(_Strict):
    """Of `Sampling`, what is another than the run's."""

    temp_text: float | None = None
    top_k_text: int | None = None
    temp_audio: float | None = None
    top_k_audio: int | None = None
    greedy: bool | None = None
    top_p_text: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram: int | None = None


class SideRow(_Strict):
    """One of the two personas; paths are relative to the manifest's folder."""

    voice_prompt: Name | None = None
    text_prompt: str | None = None
    text_prompt_file: Name | None = None
    role: Name | None = None
    fields: dict[str, str] = {}
    seed: Seed | None = None
    sampling: SamplingRow = SamplingRow()


class LineRow(_Strict):
    """What happens to the sound between the two; see `core.engine.line`."""

    gain_db: float = Field(default=0.0, ge=-60, le=60)
    band: Literal["telephone"] | None = None
    noise_dbfs: float | None = Field(default=None, le=0)
    delay: float = Field(default=0.0, ge=0, le=LATEST)


class ConversationRow(BaseModel):
    """One conversation; keys that are not known here are passed through.

    `begins` names the side that speaks first: the other one keeps silent for `lead_in` seconds, and as long as the
    `opening` lasts, a recording that the beginning side says before it is free.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    id: Annotated[Name | None, BeforeValidator(number_as_text)] = None
    a: SideRow = SideRow()
    b: SideRow = SideRow()
    seconds: float | None = Field(default=None, gt=0, le=LONGEST)
    begins: Literal["a", "b"] | None = None
    lead_in: float | None = Field(default=None, ge=0, le=LONGEST)
    opening: Name | None = None
    line: LineRow | None = None
    seed: Seed | None = None

    @model_validator(mode="after")
    def _somebody_begins(self) -> Self:
        for key in ("lead_in", "opening"):
            if getattr(self, key) is not None and self.begins is None:
                raise ValueError(f'{key} needs begins, "a" or "b"')
        return self

    @property
    def sides(self) -> tuple[SideRow, SideRow]:
        """Both sides."""
        return self.a, self.b

    @property
    def passed_through(self) -> dict[str, Any]:
        """The keys that are the user's own."""
        return dict(self.model_extra or {})


KNOWN = frozenset(ConversationRow.model_fields)
_OBJECTS = frozenset({"a", "b", "line"})


@dataclass(frozen=True)
class Listed:
    """A row that can be run: `where` says which it is, `place` is its place, its paths are relative to `folder`."""

    id: str
    place: int
    where: str
    folder: Path
    row: ConversationRow

    def refused(self, error: PersonaplexError) -> Refused:
        """The same, as one that can't be run after all."""
        return Refused(self.id, self.place, None, self.row.passed_through, error)


@dataclass(frozen=True)
class Conversations:
    """What a manifest holds: conversations, rows that can't be run, and what is odd about its keys."""

    listed: list[Listed]
    refused: list[Refused]
    warnings: list[str]


def read_conversations(source: str, repeat: int) -> Conversations:
    """The conversations of a manifest or of standard input (`-`), each `repeat` times, with a number behind its id.

    A row at fault is refused alone. Raises UsageError for a manifest that makes no sense as a whole.
    """
    name, folder = ("standard input", Path()) if source == STDIN else (source, Path(source).parent)
    if source != STDIN and Path(source).suffix.lower() not in {".jsonl", ".json"}:
        raise UsageError(f"{source}: not a .jsonl or .json", "name a manifest of conversations, or - for stdin")
    raws = list(json_rows(manifest_text(source), name))
    if not raws:
        raise UsageError(f"{name}: holds no rows", "give it a row a conversation, with a and b")
    rows = checked_rows(raws, ConversationRow, KNOWN, _OBJECTS, name)
    listed: list[Listed] = []
    refused = [_bad(row) for row in rows.bad]
    for number, row in rows.good:
        base = row.id or f"conversation-{number:04d}"
        for again in range(1, repeat + 1):
            identity = base if repeat == 1 else f"{base}.{again:0{len(str(repeat))}d}"
            one = Listed(identity, number, f"{name}, row {number}", folder, row)
            fault = id_fault(identity)
            if fault is None:
                listed.append(one)
            else:
                refused.append(one.refused(UsageError(f"{one.where}: {fault[0]}", fault[1])))
    check_unique(listed, "conversations")
    return Conversations(listed, distinct(refused, {one.id for one in listed}), rows.warnings)


def _bad(row: BadRow) -> Refused:
    """A row at fault, by its id if it has one."""
    identity = number_as_text(row.keys.get("id"))
    own = {key: value for key, value in row.keys.items() if key not in KNOWN}
    refused = Refused("", row.number, None, own, UsageError(row.fault, MEND_ROW))
    if isinstance(identity, str) and identity:
        return replace(refused, id=identity)
    return replace(refused, id=numbered(row.number), row=row.number)
