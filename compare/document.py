"""A transcript read from its file and checked: what compares it meets no missing field and no other type."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from personaplex.compare.verdicts import Recorded
from personaplex.core.answers.transcript import SCHEMA
from personaplex.core.config import CODEBOOKS
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.files import check_schema, read_json, schema_of

_FAMILY = SCHEMA.partition("/")[0] + "/"
_AGAIN = "make it again with personaplex, or take it away"

Token = Annotated[int, Field(ge=-(2**31), lt=2**31)]
TokenRow = Annotated[list[Token], Field(min_length=1 + CODEBOOKS, max_length=1 + CODEBOOKS)]
Stretch = Annotated[list[float], Field(min_length=2, max_length=2)]


class _Checked(BaseModel):
    """Fields that are not named here may hold anything."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Word(_Checked):
    word: str
    start: float
    end: float


class _Segment(_Checked):
    words: list[_Word]


class _Input(_Checked):
    sha256: str
    duration: float = Field(ge=0)


class _Output(_Checked):
    path: str
    pcm_sha256: str
    sample_rate: int = Field(gt=0)
    rms_dbfs: float


class _Activity(_Checked):
    caller: list[Stretch]
    agent: list[Stretch]


class _Flag(_Checked):
    kind: str
    start: float
    end: float
    detail: str


class _Prompt(_Checked):
    text: str
    voice_sha256: str


class _Model(_Checked):
    name: str
    weights_sha256: str


class _Engine(_Checked):
    gpu: dict[str, Any] | None = None
    versions: dict[str, str]


class _Transcript(_Checked):
    """What is compared. `tokens` are a golden's; transcripts of older versions have no `activity` and `flags`."""

    text: str
    segments: list[_Segment]
    text_tokens: list[Token]
    tokens: list[TokenRow] = []
    tokens_sha256: str
    input: _Input
    output: _Output
    activity: _Activity | None = None
    flags: list[_Flag] | None = None
    prompt: _Prompt
    sampling: dict[str, Any]
    model: _Model
    engine: _Engine


def read_document(path: Path) -> dict[str, Any] | None:
    """The transcript in the file `path`, checked; None if its JSON is something else.

    Raises UsageError for a file that can't be read or is no JSON, a transcript of another version, and one with
    fields missing or of a wrong type.
    """
    value = read_json(path, "name a folder of results or a transcript's JSON file", _AGAIN)
    if not str(schema_of(value)).startswith(_FAMILY):
        return None
    check_schema(value, SCHEMA, path, "record it again with the version that compares it")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, say
        raise UsageError(f"{path}: holds what is not UTF-8 ({error})", _AGAIN) from error
    return checked(value, str(path))


def checked(document: Any, where: str) -> dict[str, Any]:
    """`document` itself, if it holds all that is compared; else a UsageError that begins with `where`."""
    try:
        _Transcript.model_validate(document)
    except ValidationError as error:
        what = f"{where}: not a whole transcript: {first_faults(field_faults(error))}"
        raise UsageError(what, _AGAIN) from error
    found: dict[str, Any] = document
    return found


def words_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All words of a transcript, each with `word`, `start` and `end`, in the order in which they are spoken."""
    return [word for segment in document["segments"] for word in segment["words"]]


def answer(recorded: Recorded) -> Mapping[str, Any]:
    """The document of an item that has one; ValueError for one that failed."""
    if recorded.document is None:
        raise ValueError(f"{recorded.id} has no answer")
    return recorded.document
