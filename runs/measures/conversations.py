"""What of a conversation's transcript it takes to measure it: both sides speak, and both listen."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from personaplex.core.answers.transcript import CONVERSATION
from personaplex.core.errors import InputError, UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.files import check_schema, read_json, schema_of

_MEND = "run the conversation again"
_FAMILY = CONVERSATION.partition("/")[0] + "/"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Output(_Strict):
    path: str
    pcm_sha256: str


class _Prompt(_Strict):
    voice: str
    text: str


class _Sampling(_Strict):
    seed: int


class _Flag(_Strict):
    kind: str
    start: float
    end: float
    detail: str


class _Side(_Strict):
    output: _Output
    prompt: _Prompt
    sampling: _Sampling
    flags: list[_Flag] = []


class _Word(_Strict):
    word: str
    start: float
    end: float


class _Segment(_Strict):
    speaker: str
    words: list[_Word]


class _Needed(_Strict):
    duration: float = Field(gt=0)
    output: _Output
    sides: dict[str, _Side] = Field(min_length=2, max_length=2)
    segments: list[_Segment]
    flags: list[_Flag] = []


@dataclass(frozen=True)
class Speaker:
    """A side of a conversation; `words` are start and end in seconds of its WAV."""

    name: str
    wav: Path
    voice: str
    role: str
    seed: int
    words: list[tuple[float, float]] = field(repr=False)


@dataclass(frozen=True)
class Conversation:
    """A conversation in a folder, its sides on one time."""

    duration: float
    pcm_sha256: str
    speakers: tuple[Speaker, Speaker]
    document: dict[str, Any] = field(repr=False)


def read_conversation(transcript: Path) -> Conversation | None:
    """The conversation in a file; None if it holds something else. Raises InputError for one that can't be used."""
    try:
        document = read_json(transcript, _MEND, _MEND)
        if not str(schema_of(document)).startswith(_FAMILY):
            return None
        check_schema(document, CONVERSATION, transcript, _MEND)
        needed = _Needed.model_validate(document)
    except UsageError as error:
        raise InputError(error.what, error.mend) from error
    except ValidationError as error:
        what = f"{transcript}: not a whole transcript: {first_faults(field_faults(error))}"
        raise InputError(what, _MEND) from error
    first, second = (_speaker(name, side, needed, transcript.parent) for name, side in needed.sides.items())
    return Conversation(needed.duration, needed.output.pcm_sha256, (first, second), document)


def _speaker(name: str, side: _Side, needed: _Needed, folder: Path) -> Speaker:
    words = [(word.start, word.end) for segment in needed.segments if segment.speaker == name for word in segment.words]
    wav = folder / Path(side.output.path).name
    return Speaker(name, wav, side.prompt.voice, side.prompt.text, side.sampling.seed, words)
