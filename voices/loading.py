"""A voice of any kind, ready for a model: a stored one, or a recording that its codec encodes."""

from pathlib import Path

import torch

from personaplex.core.audio import reading
from personaplex.core.audio.loudness import normalise_loudness
from personaplex.core.audio.reading import Recording
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.engine.job import NamedVoice
from personaplex.core.engine.session import EmbeddedVoice, RecordedVoice
from personaplex.core.errors import InputError, VoiceError
from personaplex.core.weights.model import Model
from personaplex.voices.catalogue import STORED
from personaplex.voices.files import read_voice


def is_stored(path: Path) -> bool:
    """Whether the voice in `path` is a stored one, not a recording."""
    return path.suffix.lower() in STORED


def load_voice(path: Path, model: Model) -> NamedVoice:
    """The voice in a `.pt`, a `.safetensors` or an audio file; raises VoiceError for any that does not fit `model`."""
    if is_stored(path):
        stored = read_voice(path, model.config.lm.dim)
        return NamedVoice(path.stem, stored.sha256, EmbeddedVoice(stored.embeddings, stored.columns))
    recording = read_recording(path)
    return NamedVoice(path.stem, recording.info.sha256, encode(recording, model))


def read_recording(path: Path) -> Recording:
    """A voice's recording, mixed to mono at 24 kHz; raises VoiceError."""
    try:
        return reading.read(path)
    except InputError as error:
        raise VoiceError(f"voice {error.what}", error.mend) from error


def normalise(recording: Recording) -> reading.Samples:
    """Its samples [N] at -24 LUFS, by one gain on the whole of it; raises VoiceError if it is too short or silent."""
    return normalise_loudness(recording.samples, SAMPLE_RATE, name=f"voice {recording.info.path}")


def encode(recording: Recording, model: Model) -> RecordedVoice:
    """The codes of its normalised samples; raises VoiceError if it is too short or silent."""
    return RecordedVoice(model.mimi.encode_call(torch.from_numpy(normalise(recording))).cpu())
