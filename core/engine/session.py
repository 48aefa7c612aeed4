"""One call's script of frames: voice, silence, text, silence, then the live call.

A prompt is columns of forced tokens; `prefill` turns it into a `Persona`, the state in which a live call starts,
which depends on the voice, the text and the model alone and is copied into a slot for every call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.config import AGENT, CODEBOOKS, DELAYS, PAD, STREAMS, USER, ModelConfig
from personaplex.core.errors import VoiceError
from personaplex.core.lm.model import LM
from personaplex.core.lm.state import FREE, LMState

SILENCE_FRAMES = 6  # half a second before the text prompt and after it


@dataclass(frozen=True)
class RecordedVoice:
    """A voice as the codes int64 [V, 8] of a recording."""

    codes: Tensor

    @property
    def frames(self) -> int:
        """V, the calls it takes."""
        return len(self.codes)


@dataclass(frozen=True)
class EmbeddedVoice:
    """A voice as the temporal inputs of its calls 1 to V - 1, [V - 1, dim], and the token columns around its end.

    Column p is `columns`[:, p mod 4], int64 [17, 4].
    """

    embeddings: Tensor
    columns: Tensor

    @property
    def frames(self) -> int:
        """V, the calls it takes."""
        return len(self.embeddings) + 1


Voice = RecordedVoice | EmbeddedVoice


@dataclass(frozen=True)
class Persona:
    """A prefilled prompt: `state` has one row, about to take the live call `steps`."""

    state: LMState
    steps: int  # P, the number of prompt calls


def prompt_steps(voice: Voice, text_tokens: Sequence[int]) -> int:
    """P, the number of prompt calls."""
    return voice.frames + 2 * SILENCE_FRAMES + len(text_tokens)


def prefill(lm: LM, config: ModelConfig, voice: Voice, text_tokens: Sequence[int]) -> Persona:
    """Run a whole prompt through the temporal transformer at once.

    Raises VoiceError where an embedded voice has another width than the model, or tokens that the model lacks.
    """
    steps = prompt_steps(voice, text_tokens)
    script = _script(config, text_tokens)
    if isinstance(voice, RecordedVoice):
        spoken = _spoken(voice.codes, config)
        columns, held = _columns(torch.cat([spoken, script]), start=0, initial=_initial(config))
        inputs = lm.embed(columns[:-1].to(lm.device))
    else:
        if voice.embeddings.shape[-1] != config.lm.dim:
            widths = f"dim {voice.embeddings.shape[-1]}; this model has dim {config.lm.dim}"
            raise VoiceError(f"the voice was made for a model of {widths}", "use a voice made for this model")
        last = voice.frames - 1
        edge = voice.columns[:, [last % 4, voice.frames % 4]].T
        # The last voice frame: its undelayed tokens stand in column V - 1, the delayed ones wait in column V.
        frame = torch.where(torch.tensor(DELAYS) == 0, edge[0], edge[1])
        _check_tokens(torch.stack([edge[0], frame]), config)
        columns, held = _columns(torch.cat([frame[None], script]), start=last, initial=_initial(config))
        columns[0] = edge[0]
        embedded = voice.embeddings.to(lm.device, lm.dtype)
        inputs = torch.cat([embedded, lm.embed(columns[:-1].to(lm.device))])
    state = lm.prefill(inputs, columns[-1].to(lm.device), held.to(lm.device))
    return Persona(state, steps)


def recorded_columns(codes: Tensor, config: ModelConfig) -> tuple[Tensor, Tensor]:
    """The forced frames and the columns, both int64 [V, 17], of a recorded voice with the codes [V, 8]."""
    frames = _spoken(codes, config)
    return frames, _columns(frames, start=0, initial=_initial(config))[0]


def _spoken(codes: Tensor, config: ModelConfig) -> Tensor:
    frames = _frames(len(codes), config.sine_codes)
    frames[:, AGENT] = codes
    return frames


def _initial(config: ModelConfig) -> Tensor:
    return torch.tensor([config.lm.text_vocab] + [config.lm.audio_vocab] * (STREAMS - 1))


def _check_tokens(columns: Tensor, config: ModelConfig) -> None:
    """Refuse a voice's columns [n, 17] whose tokens can't be embedded."""
    for column, stream in ((columns < 0) | (columns > _initial(config))).nonzero().tolist():
        what = f"the voice holds token {columns[column, stream]} in stream {stream}, which this model lacks"
        raise VoiceError(what, "its file is damaged, or made for another model: fetch or make it anew")


def _frames(count: int, user: Sequence[int]) -> Tensor:
    """`count` frames of forced tokens int64 [count, 17] in which nothing is said and the user hums a sine."""
    frames = torch.full((count, STREAMS), PAD)
    frames[:, USER] = torch.tensor(user)
    return frames


def _script(config: ModelConfig, text_tokens: Sequence[int]) -> Tensor:
    """Silence, text, silence: the forced frames behind a voice, int64 [n, 17]."""
    frames = _frames(2 * SILENCE_FRAMES + len(text_tokens), config.sine_codes)
    frames[:, AGENT] = torch.tensor(config.silence_codes)
    frames[SILENCE_FRAMES : SILENCE_FRAMES + len(text_tokens), 0] = torch.tensor(text_tokens, dtype=torch.int64)
    return frames


def _columns(frames: Tensor, start: int, initial: Tensor) -> tuple[Tensor, Tensor]:
    """Columns start to start + n - 1 of forced frames [n, 17] from frame `start` on, and what waits for the next.

    Column p holds, for a stream of delay d, the token of frame p - d, and the initial token where p <= d.
    """
    delays = torch.tensor(DELAYS)
    late = torch.cat([frames[:1], frames[:-1]])
    columns = torch.where(delays == 0, frames, late)
    position = start + torch.arange(len(frames))
    columns = torch.where(position[:, None] <= delays, initial, columns)
    held = torch.where(delays == 0, FREE, frames[-1])
    return columns, held


def silence(config: ModelConfig) -> Tensor:
    """The user codes int64 [8] of a frame in which nobody speaks, for calls past the recording's end."""
    return torch.tensor(config.silence_codes[:CODEBOOKS])
