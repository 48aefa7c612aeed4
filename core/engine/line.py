"""The line between two personas: gain, a telephone's band, noise and delay, frame by frame.

What a side hears over it is a pure function of the other side's codes, the line, the seed and the frame.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from personaplex.core.audio.reading import Samples
from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE
from personaplex.core.mimi.codec import Mimi

TELEPHONE_HZ = (300, 3400)  # the band of ITU-T G.712
ORDER = 4  # of the filter
_NOISE = 0x4C49_4E45  # the second word of the noise's key, apart from what draws tokens


@dataclass(frozen=True)
class Line:
    """What happens to the sound on its way, in this order; the default changes nothing.

    gain_db: how much louder it arrives.
    band: "telephone" keeps 300 to 3400 Hz.
    noise_dbfs: the level of white noise; 0 dBFS is an RMS of 1.
    delay: seconds that it takes longer.
    """

    gain_db: float = 0.0
    band: str | None = None
    noise_dbfs: float | None = None
    delay: float = 0.0


class LineState:
    """One direction of a line in use. The codec hears single frames, as in a live call."""

    def __init__(self, line: Line, seed: int, mimi: Mimi) -> None:
        self._line = line
        self._seed = seed
        self._mimi = mimi
        self._decoder, self._encoder = mimi.decoder_zeros(), mimi.encoder_zeros()
        self._band = None if line.band is None else _Band()
        self._late = np.zeros(round(line.delay * SAMPLE_RATE), dtype=np.float32)

    def carry(self, codes: Tensor, frame: int) -> Tensor:
        """What arrives of the codes int64 [8] in a frame: int64 [8]."""
        mimi = self._mimi
        sound = mimi.decode(codes[None, :, None].to(mimi.device), self._decoder)[0, 0].cpu()
        arriving = torch.from_numpy(self._changed(sound.numpy(), frame))[None, None]
        return mimi.encode(arriving.to(mimi.device), self._encoder)[0, :, 0].cpu()

    def _changed(self, samples: Samples, frame: int) -> Samples:
        line = self._line
        sound = samples * 10 ** (line.gain_db / 20)
        if self._band is not None:
            sound = self._band(sound)
        if line.noise_dbfs is not None:
            sound = sound + noise(self._seed, frame) * 10 ** (line.noise_dbfs / 20)
        waiting = np.concatenate([self._late, sound.astype(np.float32)])
        self._late = waiting[FRAME_SAMPLES:]
        return waiting[:FRAME_SAMPLES]


class _Band:
    """A telephone's band, sample by sample."""

    def __init__(self) -> None:
        from scipy import signal  # takes long to import, so only where it is used

        self._sosfilt = signal.sosfilt
        self._sections = signal.butter(ORDER, TELEPHONE_HZ, "bandpass", fs=SAMPLE_RATE, output="sos")
        self._memory = np.zeros((len(self._sections), 2))

    def __call__(self, samples: Samples) -> Any:
        sound, self._memory = self._sosfilt(self._sections, samples, zi=self._memory)
        return sound


def noise(seed: int, frame: int) -> NDArray[np.float64]:
    """A frame of white noise [1920] with an RMS of 1, uniformly distributed: integers alone make it, so that it is the
    same on every machine.
    """
    philox = np.random.Philox(key=seed | _NOISE << 64, counter=frame << 64)
    uniform = (philox.random_raw(FRAME_SAMPLES) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (uniform - 0.5) * math.sqrt(12)
