"""What of a transcript it takes to measure its call."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from personaplex.compare.document import read_document, words_of
from personaplex.core.config import FRAME_RATE
from personaplex.core.errors import InputError, UsageError
from personaplex.core.faults import field_faults, first_faults

_MEND = "run the item again"


class Input(BaseModel):
    """The caller's recording, and the part of it that was used."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    path: str
    sha256: str
    channel: str
    duration: float = Field(gt=0)
    offset: float = Field(default=0.0, validation_alias=AliasPath("part", "offset"))
    part_duration: float | None = Field(default=None, validation_alias=AliasPath("part", "duration"))


class _Output(BaseModel):
    model_config = ConfigDict(strict=True)

    path: str
    pcm_sha256: str
    align: str = "reference"


class _Prompt(BaseModel):
    model_config = ConfigDict(strict=True)

    voice: str
    text: str


class _Sampling(BaseModel):
    model_config = ConfigDict(strict=True)

    seed: int


class _Needed(BaseModel):
    input: Input
    output: _Output
    prompt: _Prompt
    sampling: _Sampling
    files: dict[str, str] = {}


@dataclass(frozen=True)
class Answer:
    """A call's answer in a folder: `words` are the agent's, start and end in seconds of its WAV.

    `shift` is how many seconds that lags behind the model's own time, in which the caller was heard.
    """

    folder: Path
    input: Input
    wav: Path
    mix: Path | None
    shift: float
    pcm_sha256: str
    voice: str
    role: str
    seed: int
    words: list[tuple[float, float]] = field(repr=False)
    document: dict[str, Any] = field(repr=False)


def read_answer(transcript: Path) -> Answer | None:
    """The answer in a transcript's file, None if it holds something else; raises InputError for one that's no use."""
    try:
        document = read_document(transcript)
        if document is None:
            return None
        needed = _Needed.model_validate(document)
    except UsageError as error:
        raise InputError(error.what, error.mend) from error
    except ValidationError as error:
        what = f"{transcript}: not a whole transcript: {first_faults(field_faults(error))}"
        raise InputError(what, _MEND) from error
    folder, output = transcript.parent, needed.output
    wav = folder / Path(output.path).name  # of the path only the name counts, so none leads elsewhere
    mix = folder / f"{wav.stem}.mix.wav"
    return Answer(
        folder=folder,
        input=needed.input,
        wav=wav,
        mix=mix if mix.name in needed.files and mix.is_file() else None,
        shift=1 / FRAME_RATE if output.align == "reference" else 0.0,
        pcm_sha256=output.pcm_sha256,
        voice=needed.prompt.voice,
        role=needed.prompt.text,
        seed=needed.sampling.seed,
        words=[(word["start"], word["end"]) for word in words_of(document)],
        document=document,
    )
