"""What is worth telling about a recording before a voice is made of it."""

from collections.abc import Iterator

import numpy as np

from personaplex.core.audio.reading import Recording, Samples
from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE

SHORT, LONG = 3.0, 20.0  # seconds that are useful

_FULL_SCALE = 0.999  # clipped samples come out a little lower from a change of rate
_QUIET = 0.01  # of the loudest frame: 40 dB below it
_MOST_SILENCE = 0.5


def doubts(recording: Recording) -> Iterator[str]:
    """Reasons, a line each, why the voice may come out badly: its length, clipping, silence, how it was read."""
    seconds = len(recording.samples) / SAMPLE_RATE
    if seconds < SHORT:
        yield f"lasts {seconds:.1f} s; {SHORT:g} to {LONG:g} s of speech make a better voice"
    if seconds > LONG:
        yield f"lasts {seconds:.1f} s; what is over {LONG:g} s only takes room from the call, so cut it"
    clipped = int(np.count_nonzero(np.abs(recording.samples) >= _FULL_SCALE))
    if clipped:
        yield f"samples at full scale: {clipped}; if they are clipped, record it again at a lower level"
    silent = _silent_share(recording.samples)
    if silent > _MOST_SILENCE:
        yield f"{silent:.0%} of it is silence; cut it out"
    yield from recording.warnings


def _silent_share(samples: Samples) -> float:
    """The share of frames that are 40 dB or more below the loudest one; `samples` holds a frame or more."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    level = np.sqrt(np.mean(np.square(frames, dtype=np.float64), axis=1))
    return float(np.mean(level <= _QUIET * level.max()))
