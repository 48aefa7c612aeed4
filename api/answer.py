"""What the agent answered, and why there is no answer."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex.core.answers.exports import JSON, parse_formats
from personaplex.core.answers.outputs import OutputOptions, OutputPaths, Run, transcript_of, write
from personaplex.core.answers.transcript import Word
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.engine.job import Response
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.runs.call import check_targets


@dataclass(frozen=True)
class Origin:
    """What it takes to write an answer down.

    `source` is the input as the user named it, `voice` the file of its voice, `started` the time in ISO 8601.
    """

    response: Response
    run: Run
    source: str
    voice: Path
    started: str

    @property
    def seconds(self) -> float:
        """What the call took, in wall time."""
        return sum(self.response.seconds.values())

    def transcript(self, paths: OutputPaths) -> dict[str, Any]:
        """The document of the answer's files at `paths`, none of which is written."""
        return transcript_of(self.response, self.run, paths, self.source, self.started, self.seconds)


@dataclass(frozen=True, eq=False)
class Answer:
    """The agent's side of one call.

    id: the call's.
    audio: float32 [samples] at `sample_rate`, 24000 samples a second; as long as the caller's audio.
    text: what the agent said.
    words: its words, with `start` and `end` in seconds of `audio`, and the `frame` of the first piece.
    tokens: int32 [T, 9], a row for each frame of 0.08 s: the text token, then codebooks 0 to 7 of the agent's audio.
    transcript: what `personaplex batch` writes as JSON, with the same hashes; it names files as that does.
    error: None, so that answers and failures can be told apart.
    """

    id: str
    audio: npt.NDArray[np.float32]
    sample_rate: int
    text: str
    words: list[Word]
    tokens: npt.NDArray[np.int32]
    transcript: dict[str, Any] = field(repr=False)
    origin: Origin = field(repr=False)
    error: None = None

    @classmethod
    def of(cls, origin: Origin, paths: OutputPaths) -> "Answer":
        """The answer whose files would lie at `paths`; raises ModelError for a text token that the tokenizer lacks."""
        document = origin.transcript(paths)
        words = [Word(**word) for segment in document["segments"] for word in segment["words"]]
        response = origin.response
        return cls(
            response.job.id, response.samples, SAMPLE_RATE, document["text"], words, response.tokens, document, origin
        )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        subtype: str = "PCM_16",
        rate: int = SAMPLE_RATE,
        formats: Sequence[str] = (),
        tokens: bool = False,
        mix: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Write the WAV to `path` and the transcript beside it as `.json`, and return the transcript of these files.

        They are the files that `personaplex offline` writes: all of them or, after an error, none. A missing folder
        is made. What an earlier answer left under these names is replaced.

        subtype: of the WAV, as libsndfile names it: PCM_16, PCM_24, FLOAT, ULAW or ALAW, among others.
        rate: samples a second of the WAV, from 1000 to 384000.
        formats: what to write beside: "srt", "vtt", "ctm", "textgrid", "frames".
        tokens: also write the tokens, as `<stem>.tokens.safetensors`.
        mix: where to write a stereo WAV, the caller left and the agent right.

        Raises UsageError for an option that makes no sense or a file that would replace the caller's or another output,
        InputError if a file can't be written.
        """
        wav = Path(path)
        options = OutputOptions(subtype, rate, parse_formats(",".join((JSON, *formats))), tokens)
        paths = OutputPaths(wav, wav.with_suffix(".json"), None if mix is None else Path(mix))
        origin = self.origin
        check_targets(paths.all(options), origin.response.job.input, origin.voice)
        for target in paths.all(options):
            make_folder(target.parent)
        run = replace(origin.run, options=options)
        return write(origin.response, run, paths, origin.source, origin.started, origin.seconds)


@dataclass(frozen=True, eq=False)
class Failure:
    """A call without an answer, and why: `error` says `what` is wrong and how to `mend` it."""

    id: str
    error: PersonaplexError
