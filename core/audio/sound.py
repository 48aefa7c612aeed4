"""A caller's samples that are in memory, read as a file of them would be."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex.core.audio.formats.source import Block, Header
from personaplex.core.errors import UsageError

ARRAY = "<array>"
"""What stands in the place of a path."""

_MOST_CHANNELS = 1024  # of a WAV, as libsndfile has it
_MOST_RATE = 655_350  # samples a second of any format


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples float32 [N, channels], `sample_rate` of them a second."""

    samples: npt.NDArray[np.float32]
    sample_rate: int

    @classmethod
    def of(cls, array: npt.NDArray[Any], sample_rate: int) -> "Sound":
        """The sound of an array [N] or [N, channels]: of floats, or of integers whose type's full scale is ±1.

        Raises UsageError for an array or a rate that is none of a sound.
        """
        if array.ndim not in {1, 2} or (array.ndim == 2 and not 0 < array.shape[1] <= _MOST_CHANNELS):
            what = f"an array of shape {list(array.shape)} is no sound"
            raise UsageError(what, "give [samples] or [samples, channels]: transpose it if the channels come first")
        if array.dtype.kind == "f":
            samples = array.astype(np.float32, copy=False)
        elif array.dtype.kind == "i":
            samples = (array / 2.0 ** (8 * array.itemsize - 1)).astype(np.float32)
        else:
            raise UsageError(f"samples of type {array.dtype} are not understood", "give float32 from -1 to 1")
        if not 1 <= sample_rate <= _MOST_RATE:
            raise UsageError(f"a sample rate of {sample_rate} makes no sense", "give samples a second, such as 24000")
        return cls(samples if samples.ndim == 2 else samples[:, np.newaxis], sample_rate)

    def __str__(self) -> str:
        return ARRAY

    @property
    def sha256(self) -> str:
        """SHA-256, in hex, of the samples as little-endian float32, channels interleaved."""
        return hashlib.sha256(np.ascontiguousarray(self.samples, dtype="<f4").tobytes()).hexdigest()


class SoundSource:
    """A sound as an open recording: see `personaplex.core.audio.formats.source.Source`."""

    warnings: tuple[str, ...] = ()

    def __init__(self, sound: Sound) -> None:
        self.header = Header(sound.sample_rate, sound.samples.shape[1], len(sound.samples))
        self._samples = sound.samples
        self._at = 0

    def seek(self, frame: int) -> None:
        """Go to `frame`."""
        self._at = frame

    def read(self, count: int) -> Block:
        """The next frames [≤ count, C]; none at the end."""
        block = np.ascontiguousarray(self._samples[self._at : self._at + count])  # so that sums round as of a file
        self._at += len(block)
        return block

    def close(self) -> None:
        """Nothing is open."""
