"""One gain on a whole recording, to the loudness that voices are made at."""

import numpy as np

from personaplex.core.audio.reading import Samples
from personaplex.core.errors import VoiceError

TARGET = -24.0  # LUFS
SHORTEST = 0.4  # seconds: one gating block of ITU-R BS.1770-4

_MEND = f"a voice needs at least {SHORTEST} s of sound"


def normalise_loudness(samples: Samples, rate: int, target: float = TARGET, *, name: str) -> Samples:
    """`samples` [N] at `rate` under one gain, so that their integrated loudness is `target` LUFS.

    Measure before any padding, on float32: a difference of 0.08 dB already changes Mimi's codes. The result may go
    beyond ±1. Raises `VoiceError`, naming `name`, if there is no loudness: under 0.4 s, silence, or samples that are
    not finite.
    """
    from pyloudnorm import Meter  # imports scipy, which is slow

    if len(samples) < SHORTEST * rate:
        raise VoiceError(f"{name}: lasts only {len(samples) / rate:.3f} s", _MEND)
    if not np.isfinite(samples).all():
        raise VoiceError(f"{name}: holds samples that are not finite numbers", "record or convert it anew")
    loudness = float(Meter(rate).integrated_loudness(samples))
    if not np.isfinite(loudness):
        raise VoiceError(f"{name}: is silent, or too quiet to measure (below -70 LUFS)", _MEND)
    gain: float = 10.0 ** ((target - loudness) / 20.0)
    return (samples.astype(np.float64) * gain).astype(np.float32)
