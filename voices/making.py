"""Making a voice file: from a recording, for one model, or from a `.pt`; a `.safetensors` that tells where it is from.

It holds what a `.pt` holds, see `personaplex.voices.files`: the temporal inputs of the voice's calls and the columns
around its end, so that neither the codec nor an embedding is needed to use it.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from personaplex.core.audio.reading import Recording
from personaplex.core.config import DELAYS, STREAMS, ModelConfig
from personaplex.core.engine.session import recorded_columns
from personaplex.core.weights.model import Model
from personaplex.core.weights.tensors import write_tensors
from personaplex.voices.files import read_voice
from personaplex.voices.loading import encode

SCHEMA = "personaplex.voice/1"

_COLUMNS = 4
_SHORTEST = _COLUMNS + 1  # frames: as many as a recording needs to have a loudness


@dataclass(frozen=True, eq=False)
class MadeVoice:
    """A voice of V frames: `embeddings` [V-1, 1, 1, dim], `cache` int64 [1, 17, 4] and what to say of its making."""

    embeddings: Tensor
    cache: Tensor
    metadata: dict[str, str]

    @property
    def frames(self) -> int:
        """V, the calls it takes."""
        return len(self.embeddings) + 1


def make_voice(recording: Recording, model: Model) -> MadeVoice:
    """The voice of `recording` for `model`, in the type that the model runs in.

    Raises VoiceError if the recording is shorter than 0.4 s or silent.
    """
    columns, cache = _columns(encode(recording, model).codes, model.config)
    embeddings = model.lm.embed(columns.to(model.device))[:, None, None].cpu().contiguous()
    about = {"model": model.name, "weights_sha256": model.weights_sha256}
    return MadeVoice(embeddings, cache[None], _metadata(embeddings, recording.info.sha256) | about)


def convert_voice(path: Path, dim: int | None = None) -> MadeVoice:
    """The voice stored in the `.pt` at `path`, as it is; raises VoiceError if it is none, or not of width `dim`.

    A `.pt` doesn't say which model it was made for, so neither does the metadata.
    """
    stored = read_voice(path, dim)
    embeddings = stored.embeddings[:, None, None].contiguous()
    return MadeVoice(embeddings, stored.columns[None].contiguous(), _metadata(embeddings, stored.sha256))


def write_voice(voice: MadeVoice, path: Path) -> None:
    """Write `voice` to `path`, whole or not at all, and equal voices to equal files; raises InputError."""
    write_tensors(path, {"embeddings": voice.embeddings, "cache": voice.cache}, voice.metadata)


def _columns(codes: Tensor, config: ModelConfig) -> tuple[Tensor, Tensor]:
    """What the codes int64 [V, 8] of a voice of V >= 5 frames make the model read.

    The columns of its calls 1 … V-1, int64 [V-1, 17], and the last four of the delay line, int64 [17, 4]: column p
    is at index p mod 4, and the delayed tokens of the last frame wait in column V.
    """
    count = len(codes)
    if count < _SHORTEST:
        raise ValueError(f"{count} frames, not {_SHORTEST} or more")
    frames, columns = recorded_columns(codes, config)
    delays = torch.tensor(DELAYS)
    cache = torch.empty(STREAMS, _COLUMNS, dtype=torch.int64)
    for last in range(count - _COLUMNS, count):
        cache[torch.arange(STREAMS), (last + delays) % _COLUMNS] = frames[last]
    return columns[:-1], cache


def _metadata(embeddings: Tensor, source_sha256: str) -> dict[str, str]:
    """safetensors takes strings alone."""
    dim, frames = str(embeddings.shape[-1]), str(len(embeddings) + 1)
    return {"schema": SCHEMA, "dim": dim, "frames": frames, "source_sha256": source_sha256}
