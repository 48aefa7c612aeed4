"""Reading callers' files: any format libsndfile or FFmpeg knows, one channel of a part, at the rate asked for.

A file is decoded, reduced to one channel and resampled a block at a time, so a long one is never held at its own rate
and width. The block size is fixed: the same file gives the same samples, bit for bit, on every run.
"""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import soxr

from personaplex.core.audio.formats.opening import opened, reading
from personaplex.core.audio.formats.source import BLOCK, CUT_SHORT, Header, Source, UndecodableError
from personaplex.core.audio.sound import Sound
from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE
from personaplex.core.errors import InputError, UsageError
from personaplex.core.storage.spool import fetched
from personaplex.core.storage.urls import Stored

Samples: TypeAlias = npt.NDArray[np.float32]
Audio: TypeAlias = Path | Sound | Stored
"""Where sound comes from: a file, an array, or an object that is fetched to be read."""

_NAMED_CHANNELS = {"left": 0, "right": 1}


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


def probe(path: Path | Sound) -> Header:
    """Rate, channels and length of the file `path`, without hashing it; an `InputError` if it can't be read.

    It is decoded, once in a process, only where its header does not tell how long the sound is.
    """
    with opened(path) as source:
        return source.header


def planned_frames(path: Audio, *, offset: float = 0.0, duration: float | None = None) -> int:
    """The model's frames that `read` will give at 24 kHz; fewer come only of a file that is damaged or cut short."""
    if isinstance(path, Stored):
        with fetched(path) as copy:
            return planned_frames(copy, offset=offset, duration=duration)
    header = probe(path)
    _, count = _part_bounds(path, header, offset, duration)
    return frame_count(round(count * SAMPLE_RATE / header.sample_rate))


def read(
    path: Audio,
    *,
    channel: str = "mix",
    rate: int = SAMPLE_RATE,
    offset: float = 0.0,
    duration: float | None = None,
) -> Recording:
    """One channel of a file or a sound, `duration` seconds of it from `offset` on (to its end if None), at `rate`.

    `channel` is `mix` (the mean of all), `left` (0), `right` (1) or a number counted from 0. F source frames become
    round(F · rate / source rate) samples. Samples beyond ±1 stay as they are, with a warning.

    Raises `InputError` if the file can't be read, lacks the channel or the part, or holds samples that are not
    finite; `UsageError` if `channel`, `offset` or `duration` makes no sense.
    """
    if isinstance(path, Stored):
        with fetched(path) as copy:
            recording = read(copy, channel=channel, rate=rate, offset=offset, duration=duration)
        return replace(recording, info=replace(recording.info, path=Path(str(path))))
    with opened(path) as source:
        header = source.header
        part, count = _part(path, source, channel, offset, duration)
        chunks = list(_resampled(part.blocks(count), header.sample_rate, rate))
        told = list(source.warnings)
    if part.frames < count and CUT_SHORT not in told:
        told.append(CUT_SHORT)

    length = round(part.frames * rate / header.sample_rate)
    if not length:
        raise InputError(f"{path}: the part used holds no audio", "check the file, or the part of it that is asked for")
    missing = max(0, length - sum(map(len, chunks)))
    samples = np.concatenate([*chunks, np.zeros(missing, np.float32)])[:length]
    info = AudioInfo(
        path=Path(str(path)),
        sha256=path.sha256 if isinstance(path, Sound) else sha256(path),
        sample_rate=header.sample_rate,
        channels=header.channels,
        channel=channel,
        duration=part.frames / header.sample_rate,
    )
    return Recording(samples, info, (*_warnings(part), *told))


@contextmanager
def part_of(
    path: Path, *, channel: str = "mix", offset: float = 0.0, duration: float | None = None, rate: int | None = None
) -> Iterator[tuple[int, Iterator[Samples]]]:
    """One channel of a part of a file in blocks, and how many samples a second they have: `rate`, or the file's own.

    The other arguments are those of `read`. Raises as that does, but for a part that turns out to hold nothing.
    """
    with opened(path) as source:
        part, count = _part(path, source, channel, offset, duration)
        own = source.header.sample_rate
        yield rate or own, _resampled(part.blocks(count), own, rate or own)


def _part(
    path: Path | Sound, source: Source, channel: str, offset: float, duration: float | None
) -> tuple["_Part", int]:
    """One channel of a part of an open file, and the frames that it is said to have."""
    index = _channel_index(path, channel, source.header.channels)
    start, count = _part_bounds(path, source.header, offset, duration)
    return _Part(path, source, index, start), count


def _channel_index(path: Path | Sound, channel: str, channels: int) -> int | None:
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


def _part_bounds(path: Path | Sound, header: Header, offset: float, duration: float | None) -> tuple[int, int]:
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

    def __init__(self, path: Path | Sound, source: Source, channel: int | None, start: int) -> None:
        self._path, self._source, self.channel, self._start = path, source, channel, start
        self._rate = source.header.sample_rate
        self.frames = 0
        self.beyond = 0  # samples beyond full scale
        self.heard = np.zeros(source.header.channels, dtype=bool)  # channels that are not all zeros

    def blocks(self, count: int) -> Iterator[Samples]:
        """`count` frames, or fewer if the file ends early, as float32 blocks [≤ BLOCK]."""
        try:
            if self._start:
                self._source.seek(self._start)
            while self.frames < count:
                block = self._source.read(min(BLOCK, count - self.frames))
                if not len(block):
                    return
                yield self._checked(block)
        except UndecodableError as error:
            what = f"{self._path}: cannot be decoded from {self._seconds(0):.2f} s on: {error}"
            raise InputError(
                what, "the file is damaged: make it anew from its source, or use the part before"
            ) from error

    def _checked(self, block: Samples) -> Samples:
        """The chosen channel of a block [F, C], counted."""
        with np.errstate(invalid="ignore", over="ignore"):  # of infinite samples, told below
            samples: Samples = block.mean(axis=1) if self.channel is None else block[:, self.channel]
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
        return float((self._start + self.frames + ahead) / self._rate)


def _resampled(blocks: Iterator[Samples], source: int, rate: int) -> Iterator[Samples]:
    if source == rate:
        yield from blocks
        return
    stream = soxr.ResampleStream(source, rate, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def _warnings(part: _Part) -> Iterator[str]:
    channel = part.channel
    silent = [str(index) for index, heard in enumerate(part.heard) if not heard]
    if part.heard.any() and channel is None and silent:
        yield f"silent channels (counted from 0): {', '.join(silent)}; mixing them in makes the others quieter"
    if part.heard.any() and channel is not None and not part.heard[channel]:
        yield f"channel {channel} (counted from 0) was chosen and is silent, while another is not"
    if part.beyond:
        yield f"samples beyond full scale (±1), used as they are: {part.beyond}"


def sha256(path: Path | Stored) -> str:
    """SHA-256, in hex, of a file's bytes; raises `InputError`."""
    if isinstance(path, Stored):
        with fetched(path) as copy:
            return sha256(copy)
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
