"""What an open recording is to those who read it, and the words for what is wrong with it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from personaplex.core.errors import InputError

Block = npt.NDArray[np.float32]

BLOCK = 65_536  # source frames decoded at a time
CUT_SHORT = "the file is cut short: it holds less sound than its header promises; what is there is used"
CONVERT = "check that it is a whole audio file, or convert it to a WAV"


@dataclass(frozen=True)
class Header:
    """What a file holds: frames a second, channels, and frames in all, as they come out of its decoder."""

    sample_rate: int
    channels: int
    frames: int

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.frames / self.sample_rate


class Source(Protocol):
    """An open recording. `warnings` are complete once it is read."""

    @property
    def header(self) -> Header:
        """Its rate, channels and length."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to tell of the file itself."""

    def seek(self, frame: int) -> None:
        """Go to `frame`."""

    def read(self, count: int) -> Block:
        """The next frames [≤ count, C]; none at the end. Raises `UndecodableError`."""

    def close(self) -> None:
        """Close the file."""


class UndecodableError(Exception):
    """A decoder's word about data it can't decode."""


def other_shape(path: Path, seconds: float) -> InputError:
    """The error of a file that goes on at another rate or with other channels."""
    what = f"{path}: its rate or its number of channels changes at {seconds:.2f} s"
    return InputError(what, "convert it to a WAV, or split it there")


def file_size(path: Path) -> int:
    """Bytes."""
    return os.stat(path).st_size
