"""The conversations of `personaplex talk` as calls: side a is the agent, side b the caller, whose words are known."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from personaplex.compare.document import Stretch
from personaplex.core.answers.transcript import CONVERSATION
from personaplex.core.corpus.results import TALK_SCHEMA, ResultRow, failure, is_of_schema
from personaplex.core.errors import InputError, UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.files import check_schema, read_json
from personaplex.exports.calls import Call, LeftOut, MadeWith, RunCalls, caller_of, own_keys, written_wav

AGENT, CALLER = "a", "b"

_AGAIN = "run the conversation again"
_OWN_KEYS = {"sides", "end"}  # of a row of conversations, beside those of any row


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")


class _Word(_Checked):
    word: str
    start: float
    end: float


class _Segment(_Checked):
    speaker: str
    start: float
    end: float
    text: str
    words: list[_Word]


class _Prompt(_Checked):
    voice: str
    voice_sha256: str
    text: str


class _Sampling(_Checked):
    seed: int


class _Output(_Checked):
    path: str


class _Flag(_Checked):
    kind: str
    start: float
    end: float
    detail: str


class _Side(_Checked):
    activity: list[Stretch]
    flags: list[_Flag]
    prompt: _Prompt
    sampling: _Sampling
    output: _Output


class _Sides(_Checked):
    a: _Side
    b: _Side


class _Model(_Checked):
    name: str
    revision: str
    weights_sha256: str


class _Conversation(_Checked):
    """What is exported of a conversation's transcript."""

    duration: float
    segments: list[_Segment]
    sides: _Sides
    flags: list[_Flag]
    files: dict[str, str]
    model: _Model


def is_of_conversations(record: Mapping[str, Any] | None) -> bool:
    """Whether a run's `run.json`, None without one, is that of conversations."""
    return is_of_schema(record, TALK_SCHEMA)


def read_conversations(run: Path, rows: Mapping[str, ResultRow]) -> RunCalls:
    """The conversations in a folder, by its rows of results; raises UsageError for a transcript that is broken."""
    found = RunCalls()
    for name, row in rows.items():
        if row.get("status") == "failed":
            found.failed.append(LeftOut(name, failure(row) or "it failed"))
            continue
        path = run / f"{name}.json"
        document = _read(path)
        try:
            found.calls.append(_call(name, own_keys(row), document, path.parent))
        except InputError as error:
            found.left_out.append(LeftOut(name, error.what))
    return found


def _read(path: Path) -> _Conversation:
    document = read_json(path, _AGAIN, _AGAIN)
    check_schema(document, CONVERSATION, path, _AGAIN)
    try:
        return _Conversation.model_validate(document)
    except ValidationError as error:
        raise UsageError(f"{path}: not a whole conversation: {first_faults(field_faults(error))}", _AGAIN) from error


def _call(name: str, own: Mapping[str, Any], found: _Conversation, folder: Path) -> Call:
    """Raises InputError for a conversation that lacks a side's sound."""
    agent, caller = found.sides.a, found.sides.b
    turns = [segment.model_dump() for segment in found.segments]
    persona = f"{caller.prompt.voice_sha256}\n{caller.prompt.text}"
    return Call(
        id=name,
        duration=found.duration,
        agent=written_wav(folder / Path(agent.output.path).name, found.files),
        caller=written_wav(folder / Path(caller.output.path).name, found.files),
        segments=[turn for turn in turns if turn["speaker"] == AGENT],
        caller_segments=[turn for turn in turns if turn["speaker"] == CALLER],
        caller_speech=[(start, end) for start, end in caller.activity],
        flags=[flag.model_dump() for flag in (*found.flags, *agent.flags)],
        made_with=MadeWith(
            voice=agent.prompt.voice,
            prompt=agent.prompt.text,
            seed=str(agent.sampling.seed),
            model=found.model.name,
            revision=found.model.revision,
            weights_sha256=found.model.weights_sha256,
            align="",
        ),
        own={key: value for key, value in own.items() if key not in _OWN_KEYS},
        group=caller_of(own) or hashlib.sha256(persona.encode("utf-8", "backslashreplace")).hexdigest(),
    )
