"""What an open recording is to those who read it, and where what is learnt of a file is kept for the process."""

import os
from collections.abc import Callable
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


@dataclass(frozen=True)
class Count:
    """The frames that a decoder gives, and whether it came to the file's end."""

    frames: int
    whole: bool


_counted: dict[tuple[Path, int, int, int], Count] = {}


def counted(path: Path, part: int, read: Callable[[int], Block]) -> Count:
    """The frames that `read` gives of a part of `path`: decoded once in a process, unless the file changes."""
    status = path.stat()
    key = path.absolute(), status.st_size, status.st_mtime_ns, part
    if key not in _counted:
        _counted[key] = count_frames(read)
    return _counted[key]


def count_frames(read: Callable[[int], Block]) -> Count:
    """The frames that `read` gives until its end, or until it can't go on."""
    frames = 0
    try:
        while length := len(read(BLOCK)):
            frames += length
    except UndecodableError:
        return Count(frames, whole=False)
    return Count(frames, whole=True)


def other_shape(path: Path, seconds: float) -> InputError:
    """The error of a file that goes on at another rate or with other channels."""
    what = f"{path}: its rate or its number of channels changes at {seconds:.2f} s"
    return InputError(what, "convert it to a WAV, or split it there")


def file_size(path: Path) -> int:
    """Bytes."""
    return os.stat(path).st_size
