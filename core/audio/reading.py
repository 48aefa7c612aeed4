"""Reading callers' files: any format libsndfile knows, one channel of a part of it, at the rate asked for.

A file is decoded, reduced to one channel and resampled a block at a time, so a long one is never held at its own rate
and width. The block size is fixed: the same file gives the same samples, bit for bit, on every run.
"""

import errno
import hashlib
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE
from personaplex.core.errors import InputError, UsageError

Samples: TypeAlias = npt.NDArray[np.float32]

BLOCK = 65_536  # source frames decoded at a time

_NAMED_CHANNELS = {"left": 0, "right": 1}
_UNKNOWN_LENGTH = 2**62  # libsndfile gives 2**63 - 1 for a FLAC that was written to a pipe

# libsndfile shortens the data of a cut file silently, and tells only its log. Programs that write to a pipe promise
# about 2 or 4 GiB since they can't know better: such a promise says nothing.
_PROMISE = re.compile(r"^\W*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_EMPTY_PROMISE = 0x7FFF_0000

_MENDS = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name an audio file inside it",
    errno.EACCES: "make the file readable for this user",
}
_CONVERT = "check that it is a whole audio file, or convert it to a WAV"


@dataclass(frozen=True)
class Header:
    """What a file says of itself: frames a second, channels, and frames in all."""

    sample_rate: int
    channels: int
    frames: int

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.frames / self.sample_rate


@dataclass(frozen=True)
class AudioInfo:
    """Where samples came from; rate and channels are the file's own, `duration` is seconds of the part used."""

    path: Path
    sha256: str
    sample_rate: int
    channels: int
    channel: str
    duration: float


@dataclass(frozen=True)
class Recording:
    """One channel of sound: `samples` [N] float32 at the rate asked for, and what to tell the user about them."""

    samples: Samples
    info: AudioInfo
    warnings: tuple[str, ...]


def frame_count(samples: int) -> int:
    """How many of the model's frames hold `samples` samples, the last one perhaps in part."""
    return -(-samples // FRAME_SAMPLES)


def probe(path: Path) -> Header:
    """The header of the file `path`, without decoding or hashing it; an `InputError` if it can't be read."""
    with _opened(path) as file:
        return _header(file)


def planned_frames(path: Path, *, offset: float = 0.0, duration: float | None = None) -> int:
    """The model's frames that `read` will give at 24 kHz, by the header: fewer come only of a file cut short."""
    header = probe(path)
    _, count = _part_bounds(path, header, offset, duration)
    return frame_count(round(count * SAMPLE_RATE / header.sample_rate))


def read(
    path: Path, *, channel: str = "mix", rate: int = SAMPLE_RATE, offset: float = 0.0, duration: float | None = None
) -> Recording:
    """One channel of the file `path`, `duration` seconds of it from `offset` on (to its end if None), at `rate`.

    `channel` is `mix` (the mean of all), `left` (0), `right` (1) or a number counted from 0. F source frames become
    round(F · rate / source rate) samples. Samples beyond ±1 stay as they are, with a warning.

    Raises `InputError` if the file can't be read, lacks the channel or the part, or holds samples that are not
    finite; `UsageError` if `channel`, `offset` or `duration` makes no sense.
    """
    with _opened(path) as file:
        header = _header(file)
        index = _channel_index(path, channel, header.channels)
        start, count = _part_bounds(path, header, offset, duration)
        part = _Part(path, file, index, start)
        chunks = list(_resampled(part.blocks(count), header.sample_rate, rate))
        cut_short = part.frames < count or _breaks_promise(file.extra_info)

    length = round(part.frames * rate / header.sample_rate)
    if not length:
        raise InputError(f"{path}: the part used holds no audio", "check the file, or the part of it that is asked for")
    missing = max(0, length - sum(map(len, chunks)))
    samples = np.concatenate([*chunks, np.zeros(missing, np.float32)])[:length]
    info = AudioInfo(
        path=path,
        sha256=_sha256(path),
        sample_rate=header.sample_rate,
        channels=header.channels,
        channel=channel,
        duration=part.frames / header.sample_rate,
    )
    return Recording(samples, info, tuple(_warnings(part, index, cut_short)))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the system's errors into `InputError`."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, "check the file and the disk it lies on")
        raise InputError(f"{path}: cannot be read: {error.strerror or error}", mend) from error


def _check_file(path: Path) -> None:
    """Find what libsndfile would say less clearly, or not at all."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:  # such a path can be neither opened nor written to a transcript
        raise InputError(f"{os.fsencode(path)!r}: the name is not valid UTF-8", "rename the file") from error
    with _reading(path):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is a pipe or a device, not a file", "save the audio to a file first")
        if not status.st_size:
            raise InputError(f"{path}: is empty (0 bytes)", "check how it was copied or recorded, or leave it out")
        path.open("rb").close()


@contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    """The file, opened and known to hold audio of a known length."""
    _check_file(path)
    try:
        file = soundfile.SoundFile(path)
    except soundfile.LibsndfileError as error:
        # libsndfile says "does not exist" of an .mp3 without MPEG frames, but the file was there a moment ago.
        reason = "no audio found in it" if path.exists() and "not exist" in error.error_string else error.error_string
        raise InputError(f"{path}: is not audio that can be read: {reason.rstrip('.')}", _CONVERT) from error
    except TypeError as error:  # soundfile wants to be told the rate and width of a .raw file
        raise InputError(f"{path}: raw audio does not say its rate and width", "convert it to a WAV") from error
    with file:
        if not file.frames:
            raise InputError(f"{path}: holds no audio", "check how it was recorded, or leave it out")
        if file.frames > _UNKNOWN_LENGTH:
            raise InputError(f"{path}: its header does not say how long it is", "convert it to a WAV")
        yield file


def _header(file: soundfile.SoundFile) -> Header:
    return Header(sample_rate=file.samplerate, channels=file.channels, frames=file.frames)


def _channel_index(path: Path, channel: str, channels: int) -> int | None:
    """The number of the chosen channel, None for the mix of all."""
    if channel == "mix":
        return None
    if channel not in _NAMED_CHANNELS and not (channel.isascii() and channel.isdigit()):
        raise UsageError(f'there is no channel "{channel}"', "use mix, left, right, or a number counted from 0")
    index = _NAMED_CHANNELS[channel] if channel in _NAMED_CHANNELS else int(channel)
    if index >= channels:
        has = "1 channel" if channels == 1 else f"{channels} channels"
        mend = "use mix or left" if channels == 1 else f"use mix, or a number from 0 to {channels - 1}"
        raise InputError(f'{path}: has {has}, so no channel "{channel}"', mend)
    return index


def _part_bounds(path: Path, header: Header, offset: float, duration: float | None) -> tuple[int, int]:
    """First frame and number of frames of a part, which ends with the file at the latest."""
    if not 0 <= offset < math.inf or not (duration is None or duration > 0):
        raise UsageError(
            f"{path}: a part of {duration} s from {offset} s on makes no sense",
            "an offset is 0 or more seconds, a duration more than 0",
        )
    start = round(min(offset, header.duration) * header.sample_rate)
    if start >= header.frames:
        raise InputError(
            f"{path}: lasts {header.duration:.3f} s, so nothing is left from {offset:g} s on",
            "choose an offset inside the file",
        )
    wanted = header.duration if duration is None else min(duration, header.duration)
    return start, min(round(wanted * header.sample_rate), header.frames - start)


class _Part:
    """One channel of a part of an open file, a block at a time, and what was met on the way."""

    def __init__(self, path: Path, file: soundfile.SoundFile, channel: int | None, start: int) -> None:
        self._path, self._file, self._channel, self._start = path, file, channel, start
        self.frames = 0
        self.beyond = 0  # samples beyond full scale
        self.heard = np.zeros(file.channels, dtype=bool)  # channels that are not all zeros

    def blocks(self, count: int) -> Iterator[Samples]:
        """`count` frames, or fewer if the file ends early, as float32 blocks [≤ BLOCK]."""
        try:
            if self._start:
                self._file.seek(self._start)
            while self.frames < count:
                wanted = min(BLOCK, count - self.frames)
                block: Samples = self._file.read(wanted, dtype="float32", always_2d=True)
                if not len(block):
                    return
                yield self._checked(block)
        except soundfile.LibsndfileError as error:
            what = f"{self._path}: cannot be decoded from {self._seconds(0):.2f} s on"
            mend = "the file is damaged: make it anew from its source, or use the part before"
            raise InputError(f"{what}: {error.error_string.rstrip('.')}", mend) from error

    def _checked(self, block: Samples) -> Samples:
        """The chosen channel of a block [F, C], counted."""
        with np.errstate(invalid="ignore", over="ignore"):  # of infinite samples, told below
            samples: Samples = block.mean(axis=1) if self._channel is None else block[:, self._channel]
        finite = np.isfinite(samples)
        if not finite.all():
            time = self._seconds(int(np.argmin(finite)))
            what = f"{self._path}: the sample at {time:.6f} s is not a finite number (NaN or infinite)"
            raise InputError(what, "repair the file, or use a part without it")
        self.frames += len(block)
        self.beyond += int(np.count_nonzero(np.abs(samples) > 1))
        self.heard |= block.any(axis=0)
        return np.ascontiguousarray(samples)

    def _seconds(self, ahead: int) -> float:
        return float((self._start + self.frames + ahead) / self._file.samplerate)


def _resampled(blocks: Iterator[Samples], source: int, rate: int) -> Iterator[Samples]:
    if source == rate:
        yield from blocks
        return
    stream = soxr.ResampleStream(source, rate, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def _breaks_promise(log: str) -> bool:
    """Whether libsndfile's log tells of less data than the header promises."""
    sizes = [(int(promised), int(found)) for promised, found in _PROMISE.findall(log)]
    return any(found < promised < _EMPTY_PROMISE for promised, found in sizes)


def _warnings(part: _Part, channel: int | None, cut_short: bool) -> Iterator[str]:
    silent = [str(index) for index, heard in enumerate(part.heard) if not heard]
    if part.heard.any() and channel is None and silent:
        yield f"silent channels (counted from 0): {', '.join(silent)}; mixing them in makes the others quieter"
    if part.heard.any() and channel is not None and not part.heard[channel]:
        yield f"channel {channel} (counted from 0) was chosen and is silent, while another is not"
    if part.beyond:
        yield f"samples beyond full scale (±1), used as they are: {part.beyond}"
    if cut_short:
        yield "the file is cut short: it holds less sound than its header promises; what is there is used"


def _sha256(path: Path) -> str:
    with _reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
