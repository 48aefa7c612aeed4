"""A recording as FFmpeg reads it, through PyAV: what libsndfile does not know. PyAV is the extra `personaplex[media]`.

FFmpeg takes almost anything for sound if it is asked to guess, so the format is told from the file's own first bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from personaplex.core.audio.formats.chains import ogg_parts
from personaplex.core.audio.formats.mpeg import streams
from personaplex.core.audio.formats.source import (
    BLOCK,
    CONVERT,
    CUT_SHORT,
    Block,
    Header,
    UndecodableError,
    file_size,
    other_shape,
)
from personaplex.core.audio.formats.views import View
from personaplex.core.errors import InputError

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

_STARTS = {  # FFmpeg's name of a format, and how a file of it begins
    "mov": rb"....(?:ftyp|moov|mdat|wide|free|skip)",
    "matroska": rb"\x1a\x45\xdf\xa3",
    "asf": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "amr": rb"#!AMR",
    "aac": rb"\xff[\xf0\xf1\xf8\xf9]",
    "latm": rb"\x56[\xe0-\xff]",
    "wav": rb"(?:RIFF|RF64|BW64)....WAVE",
    "avi": rb"RIFF....AVI ",
    "flac": rb"fLaC",
    "ogg": rb"OggS",
    "flv": rb"FLV\x01",
    "wv": rb"wvpk",
    "aiff": rb"FORM....AIF[FC]",
    "caf": rb"caff",
    "au": rb"\.snd",
}
SHARED = frozenset({"wav", "flac", "ogg", "aiff", "caf", "au", "mp3"})
"""Formats that libsndfile knows too, though not with every kind of sound in them."""
_SCALE = {"u8": 2**7, "s16": 2**15, "s32": 2**31, "flt": 1, "dbl": 1}
_MOST_CHANNELS = 8  # PyAV reads beyond its memory for more in planes of their own
_PADDING = 2  # codec frames that an encoder may put behind the sound, at most

DAMAGED = "pieces of the sound that can't be decoded are left out: {}"
MISSING = 'install it with `pip install "personaplex[media]"`, or convert the file to a WAV'


def media_format(path: Path) -> str | None:
    """FFmpeg's name of the format of `path`, None for what is none that it should be asked to read."""
    with path.open("rb") as file:
        head = file.read(4096)
    for name, start in _STARTS.items():
        if re.match(start, head, re.DOTALL):
            return name
    if streams(path, 0, min(file_size(path), 2**20)):
        return "mp3"
    headerless = path.suffix.lower() == ".g722" and not head.isascii()
    return "g722" if headerless else None


class MediaSource:
    """The first audio stream of `path`, in FFmpeg's format `name`.

    Raises `InputError` if PyAV is not there, which then says what is `without` it, or if there is no sound that it can
    decode.
    """

    def __init__(self, path: Path, name: str, without: str) -> None:
        try:
            import av
        except ImportError as error:
            raise InputError(f"{path}: {without}", MISSING) from error
        self._path, self._name, self._av = path, name, av
        self._file = View(path, ((0, file_size(path)),))  # which forgives offsets that make no sense
        self._is_cut = name == "ogg" and not all(part.whole for part in ogg_parts(path, file_size(path)))
        self._container: InputContainer | None = None
        self._promised: int | None = None
        try:
            self._restart()
            self._rate, self._channels = self._shape()
            self._restart()
            self._count = _counted(path, self._next)
            self._restart()
        except BaseException:
            self.close()
            raise

    @property
    def header(self) -> Header:
        """Its rate, channels and length."""
        return Header(self._rate, self._channels, self._length)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to tell of the file itself."""
        told = (DAMAGED.format(self._damaged),) if self._damaged else ()
        cut = self._count.frames + _PADDING * self._step < (self._promised or 0) or not self._count.whole
        return (*told, CUT_SHORT) if cut or self._is_cut else told

    def seek(self, frame: int) -> None:
        """Go to `frame`, by decoding what lies before: FFmpeg's own seeking is not exact to the sample."""
        self._restart()
        while frame and (length := len(self.read(frame))):
            frame -= length

    def read(self, count: int) -> Block:
        """The next frames [≤ count, C]; none at the end.

        Raises `UndecodableError`, and `InputError` where the shape changes.
        """
        block = self._next(min(count, self._length - self._at))
        self._at += len(block)
        return block

    def close(self) -> None:
        """Close the file."""
        if self._container is not None:
            self._container.close()
        self._file.close()

    @property
    def _length(self) -> int:
        """Frames without the padding that an encoder put behind the sound, where the format tells of it."""
        promised = self._promised
        if promised is not None and promised < self._count.frames <= promised + _PADDING * self._step:
            return promised
        return self._count.frames

    def _restart(self) -> None:
        if self._container is not None:
            self._container.close()
        self._file.seek(0)
        try:
            container = self._av.open(self._file, "r", format=self._name, metadata_errors="replace")
        except self._av.error.FFmpegError as error:
            raise self._unreadable(error.strerror or "nothing that FFmpeg can read") from error
        self._container = container
        if not container.streams.audio:
            raise self._unreadable("it holds no sound")
        stream = container.streams.audio[0]
        if stream.codec_context is None or not stream.codec_context.sample_rate:
            raise self._unreadable("FFmpeg has no decoder for its sound")
        self._promised = None
        if self._name == "mov" and stream.duration is not None and stream.time_base is not None:
            self._promised = round(stream.duration * stream.time_base * stream.codec_context.sample_rate)
        self._step = stream.codec_context.frame_size
        self._blocks = self._decoded(container, stream)
        self._left = np.zeros((0, 1), np.float32)
        self._at = self._damaged = 0

    def _shape(self) -> tuple[int, int]:
        """Rate and channels of the first frame."""
        try:
            first = next(self._blocks, None)
        except UndecodableError as error:
            raise self._unreadable(str(error)) from error
        if first is None:
            raise self._unreadable("no sound in it can be decoded")
        return first[0], first[1].shape[1]

    def _next(self, count: int) -> Block:
        if not len(self._left) and count:
            rate, self._left = next(self._blocks, (self._rate, np.zeros((0, self._channels), np.float32)))
            if (rate, self._left.shape[1]) != (self._rate, self._channels):
                raise other_shape(self._path, self._at / self._rate)
        block, self._left = self._left[:count], self._left[count:]
        return block

    def _decoded(self, container: InputContainer, stream: AudioStream) -> Iterator[tuple[int, Block]]:
        """Rate and samples [F, C] of every frame; packets that can't be decoded are counted and left out."""
        try:
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except self._av.error.FFmpegError:
                    self._damaged += 1
                    continue
                for frame in frames:
                    if isinstance(frame, self._av.AudioFrame) and frame.samples:
                        yield frame.sample_rate, _samples(frame)
        except self._av.error.FFmpegError as error:
            raise UndecodableError(error.strerror or "FFmpeg can't go on") from error

    def _unreadable(self, reason: str) -> InputError:
        return InputError(f"{self._path}: is not audio that can be read: {reason}", CONVERT)


def _samples(frame: AudioFrame) -> Block:
    """A frame's samples [F, C], full scale at ±1; raises `UndecodableError` where PyAV can't give them."""
    kind, channels = frame.format.name.removesuffix("p"), frame.layout.nb_channels
    if kind not in _SCALE or channels > _MOST_CHANNELS:
        raise UndecodableError(f"PyAV does not give samples of the kind {kind} in {channels} channels")
    data = frame.to_ndarray()
    data = data.T if frame.format.is_planar else data.reshape(-1, channels)
    zero = _SCALE[kind] if kind == "u8" else 0
    scaled: Block = (data.astype(np.float32) - zero) / np.float32(_SCALE[kind])
    return scaled


@dataclass(frozen=True)
class _Count:
    """The frames that a decoder gives, and whether it came to the file's end."""

    frames: int
    whole: bool


_counts: dict[tuple[Path, int, int], _Count] = {}


def _counted(path: Path, read: Callable[[int], Block]) -> _Count:
    """The frames that `read` gives of `path`: decoded once in a process, unless the file changes."""
    status = path.stat()
    key = path.absolute(), status.st_size, status.st_mtime_ns
    if key not in _counts:
        _counts[key] = _count(read)
    return _counts[key]


def _count(read: Callable[[int], Block]) -> _Count:
    frames = 0
    try:
        while length := len(read(BLOCK)):
            frames += length
    except UndecodableError:
        return _Count(frames, whole=False)
    return _Count(frames, whole=True)
