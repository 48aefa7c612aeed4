"""A call to run and what comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex.core.audio.reading import Audio, AudioInfo, Samples
from personaplex.core.engine.session import Voice, prompt_steps
from personaplex.core.errors import PersonaplexError

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NamedVoice:
    """A loaded voice; `sha256` is of the file it came from."""

    name: str
    sha256: str
    voice: Voice


@dataclass(frozen=True, eq=False)
class Prompt:
    """What a persona is made from: a voice and a text, whose tokens are `text_tokens`."""

    voice: NamedVoice
    text: str
    text_tokens: tuple[int, ...]

    @property
    def steps(self) -> int:
        """P, the number of prompt calls."""
        return prompt_steps(self.voice.voice, self.text_tokens)

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """Equal for prompts with the same prefill."""
        return self.voice.sha256, self.text_tokens


@dataclass(frozen=True, eq=False)
class Job:
    """One call: a part of its input, a prompt and a seed. `frames` is the most its audio can take."""

    id: str
    input: Audio
    prompt: Prompt
    seed: int
    frames: int
    channel: str = "mix"
    offset: float = 0.0
    duration: float | None = None


@dataclass(frozen=True, eq=False)
class Response:
    """What the agent answered: frame u of `tokens` int32 [F, 9] (text, codebooks 0-7) stands at 0.08·u s of `samples`.

    `samples` is float32 [N] at 24 kHz, as long as the input; `user_codes` is int32 [F, 8]; `caller` tells in which
    frames of the input, bool [F], the caller speaks. `seconds` are spent on
    each phase, in wall time; `pace` tells how a call at real time's pace kept its deadlines.
    """

    job: Job
    tokens: Codes
    user_codes: Codes
    samples: Samples
    caller: npt.NDArray[np.bool_]
    info: AudioInfo
    warnings: tuple[str, ...]
    seconds: Mapping[str, float]
    pace: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Failure:
    """Why a call has no response."""

    job: Job
    error: PersonaplexError
