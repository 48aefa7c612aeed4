"""Writing WAVs that are the same bytes on every run, and what a transcript says about them."""

import hashlib
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from personaplex.core.audio.reading import Samples
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.errors import UsageError
from personaplex.core.files import replacing

# Subtype, as libsndfile names it: the type that holds its samples exactly.
_HOLDS = {
    "PCM_16": "int16",
    "PCM_24": "int32",
    "PCM_32": "int32",
    "PCM_U8": "int16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "ULAW": "int16",
    "ALAW": "int16",
}
SUBTYPES = tuple(_HOLDS)
QUIETEST = -120.0  # dBFS: what silence is said to be, since JSON has no infinity

_BLOCK = 65_536  # frames
_HEADER = 256  # bytes; a float WAV's PEAK chunk lies well inside


@dataclass(frozen=True)
class OutputInfo:
    """What was written.

    `pcm_sha256` is of the samples as decoded from the file (little-endian, channels interleaved, in the narrowest of
    int16, int32, float32, float64 that holds them), so it does not depend on the header. `peak` (a magnitude, six
    decimals), `rms_dbfs` (dB, two decimals, at least -120) and `clipped` (the number of samples beyond ±1, counted
    for every subtype) are of all channels at `sample_rate`, before the subtype's rounding and clipping.
    """

    pcm_sha256: str
    sample_rate: int
    peak: float
    rms_dbfs: float
    clipped: int


def write_wav(path: Path, channels: Samples, *, rate: int = SAMPLE_RATE, subtype: str = "PCM_16") -> OutputInfo:
    """Write what `encode_wav` makes to `path`, whole or not at all.

    Raises as that does, and `InputError` if the file can't be written (disk full, no such folder, no permission).
    """
    wav, info = encode_wav(channels, rate=rate, subtype=subtype)
    with replacing(path) as part:
        part.write_bytes(wav)
    return info


def encode_wav(channels: Samples, *, rate: int = SAMPLE_RATE, subtype: str = "PCM_16") -> tuple[memoryview, OutputInfo]:
    """`channels` [N] or [N, C], 24 kHz, as a WAV at `rate`: in memory, since libsndfile hides why a disk refuses it.

    At another rate, N samples become round(N · rate / 24000). The integer and companded subtypes clip to ±1; FLOAT
    and DOUBLE keep what lies beyond. Raises `UsageError` for an unknown subtype or rate.
    """
    if subtype not in _HOLDS:
        raise UsageError(f'a WAV can\'t be written as "{subtype}"', f"choose one of {', '.join(SUBTYPES)}")
    if rate < 1:
        raise UsageError(f"a WAV can't be written at {rate} samples a second", "choose a rate such as 24000")
    samples = _at_rate(channels, rate)
    wav = _encode(samples, rate, subtype)
    magnitude = np.abs(samples)
    info = OutputInfo(
        pcm_sha256=_pcm_sha256(wav, _HOLDS[subtype]),
        sample_rate=rate,
        peak=round(float(magnitude.max(initial=0.0)), 6),
        rms_dbfs=_rms_dbfs(samples),
        clipped=int(np.count_nonzero(magnitude > 1)),
    )
    return wav.getbuffer(), info


def _at_rate(channels: Samples, rate: int) -> Samples:
    """[N, C] at 24 kHz to [round(N · rate / 24000), C]."""
    samples = channels[:, np.newaxis] if channels.ndim == 1 else channels
    if rate == SAMPLE_RATE:
        return samples
    length = round(len(samples) * rate / SAMPLE_RATE)
    resampled: Samples = soxr.resample(np.ascontiguousarray(samples), SAMPLE_RATE, rate, quality="HQ")[:length]
    return np.pad(resampled, ((0, length - len(resampled)), (0, 0)))


def _encode(samples: Samples, rate: int, subtype: str) -> io.BytesIO:
    if subtype not in ("FLOAT", "DOUBLE"):
        samples = samples.clip(-1, 1)
    wav = io.BytesIO()
    soundfile.write(wav, samples, rate, format="WAV", subtype=subtype)
    # libsndfile puts the time of day into a float WAV's PEAK chunk (name, size, version, time: 4 bytes each).
    wav.seek(0)
    peak = wav.read(_HEADER).find(b"PEAK")
    if subtype in ("FLOAT", "DOUBLE") and peak >= 0:
        wav.seek(peak + 12)
        wav.write(bytes(4))
    return wav


def _pcm_sha256(wav: io.BytesIO, dtype: str) -> str:
    digest = hashlib.sha256()
    wav.seek(0)
    with soundfile.SoundFile(wav) as file:
        for block in file.blocks(_BLOCK, dtype=dtype, always_2d=True):
            digest.update(block.astype(block.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _rms_dbfs(samples: Samples) -> float:
    power = float(np.square(samples, dtype=np.float64).mean()) if samples.size else 0.0
    return max(QUIETEST, round(10 * math.log10(power), 2)) if power else QUIETEST
