"""A voice of any kind, ready for a model: a stored one, or a recording that its codec encodes."""

from pathlib import Path

import torch

from personaplex.core import audio
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.errors import InputError, VoiceError
from personaplex.core.job import NamedVoice
from personaplex.core.loudness import normalise_loudness
from personaplex.core.model import Model
from personaplex.core.session import EmbeddedVoice, RecordedVoice
from personaplex.voices.files import read_voice

STORED = {".pt", ".safetensors"}


def load_voice(path: Path, model: Model) -> NamedVoice:
    """The voice in a `.pt`, a `.safetensors` or an audio file; raises VoiceError for any that does not fit `model`.

    A recording is mixed to mono at 24 kHz and brought to -24 LUFS by one gain on the whole of it.
    """
    if path.suffix.lower() in STORED:
        stored = read_voice(path, model.config.lm.dim)
        return NamedVoice(path.stem, stored.sha256, EmbeddedVoice(stored.embeddings, stored.columns))
    try:
        recording = audio.read(path)
    except InputError as error:
        raise VoiceError(f"voice {error.what}", error.mend) from error
    samples = normalise_loudness(recording.samples, SAMPLE_RATE, name=f"voice {path}")
    codes = model.mimi.encode_call(torch.from_numpy(samples)).cpu()
    return NamedVoice(path.stem, recording.info.sha256, RecordedVoice(codes))
