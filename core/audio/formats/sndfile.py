"""A recording as libsndfile reads it: the parts of a chained file one after the other, headers mended beforehand."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import soundfile

from personaplex.core.audio.formats.chains import flac_parts, ogg_parts
from personaplex.core.audio.formats.headers import Repaired, repaired
from personaplex.core.audio.formats.mpeg import Stream, streams, tag_length
from personaplex.core.audio.formats.mpeg_file import MpegFile
from personaplex.core.audio.formats.source import (
    CUT_SHORT,
    Block,
    Header,
    UndecodableError,
    counted,
    file_size,
    other_shape,
)
from personaplex.core.audio.formats.stderr import without_mpg123
from personaplex.core.audio.formats.views import Piece, View, ViewedFile

_UNKNOWN_LENGTH = 2**62  # libsndfile gives 2**63 - 1 for a FLAC that was written to a pipe
_DAMAGED = "damaged pieces of the MP3, which may sound wrong: {}"
_MPEG_STARTS = tuple(bytes([0xFF, second]) for second in range(0xE2, 0x100))
_KNOWN = re.compile(rb"RIFF|RF64|fLaC|OggS|FORM|caff|\.snd|....ftyp", re.DOTALL)

# libsndfile shortens the data of a cut file silently, and tells only its log. Programs that write to a pipe promise
# about 2 or 4 GiB since they can't know better: such a promise says nothing.
_PROMISE = re.compile(r"^\W*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_EMPTY_PROMISE = 0x7FFF_0000


_Part = Stream | tuple[Piece, ...]
"""An MP3 stream, or bytes that make a sound file as `View` takes them; no pieces stand for the whole file."""


class UnreadableError(Exception):
    """What libsndfile says of a file that it does not read."""


class SoundFileSource:
    """The file `path`; raises `UnreadableError`, and `InputError` for a header that can't be one of sound."""

    def __init__(self, path: Path) -> None:
        mended = repaired(path, file_size(path))
        self._path, self._parts = path, _parts(path, mended)
        self._told = mended.warnings if mended else ()
        self._cut, self._damaged = False, 0
        self._number, self._file = 0, _open(path, self._parts[0])
        try:
            self._format = self._file.samplerate, self._file.channels
            self._cut = _breaks_promise(self._file.extra_info)
            self._lengths = self._all_lengths()
        except BaseException:
            self.close()
            raise
        self._at = 0  # in the open part

    def _all_lengths(self) -> list[int]:
        """The frames of each part, up to one that can't be opened."""
        lengths: list[int] = []
        for number, part in enumerate(self._parts):
            try:
                length, promised = _lengths(self._path, number, part, self._file)
            except UnreadableError:
                self._cut = True
                break
            self._cut |= length < promised
            lengths.append(length)
        self._parts = self._parts[: len(lengths)]
        return lengths

    @property
    def header(self) -> Header:
        """Its rate, channels and length."""
        return Header(*self._format, sum(self._lengths))

    @property
    def unknown_length(self) -> bool:
        """Whether nothing says how long it is."""
        return any(length > _UNKNOWN_LENGTH for length in self._lengths)

    @property
    def guessed(self) -> bool:
        """Whether libsndfile knows the file by its name alone, and would read anything as sound."""
        return bool(self._file.format == "RAW")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to tell of the file itself."""
        damaged = self._damaged + _damaged(self._file)
        told = (*self._told, _DAMAGED.format(damaged)) if damaged else self._told
        return (*told, CUT_SHORT) if self._cut else told

    def seek(self, frame: int) -> None:
        """Go to `frame`."""
        number = 0
        while number + 1 < len(self._parts) and frame >= self._lengths[number]:
            frame -= self._lengths[number]
            number += 1
        self._go_to(number)
        with _told():
            self._file.seek(frame)
        self._at = frame

    def read(self, count: int) -> Block:
        """The next frames [≤ count, C]; none at the end.

        Raises `UndecodableError`, and `InputError` where the shape changes.
        """
        while True:
            left = self._lengths[self._number] - self._at
            block = _read(self._file, min(count, left))
            self._at += len(block)
            self._cut |= not len(block) and left > 0
            if len(block) or self._number + 1 == len(self._parts):
                return block
            self._go_to(self._number + 1)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _go_to(self, number: int) -> None:
        """Stand at the start of part `number`."""
        if number != self._number or self._at:
            self._damaged += _damaged(self._file)
            self.close()
            with _told():
                self._number, self._file = number, _open(self._path, self._parts[number])
        self._at = 0
        if (self._file.samplerate, self._file.channels) != self._format:
            raise other_shape(self._path, sum(self._lengths[:number]) / self._format[0])


def _parts(path: Path, mended: Repaired | None) -> list[_Part]:
    """The sound files within `path`: one, but for chains."""
    size = file_size(path)
    with path.open("rb") as file:
        head = file.read(10)
        if head[:3] == b"ID3":
            file.seek(tag_length(head))
            head = file.read(10)
    if mended and not mended.mpeg:
        return [mended.pieces]
    if mended or _may_be_mpeg(head, path):
        stretches = mended.pieces if mended else ((0, size),)
        found = [s for stretch in stretches if not isinstance(stretch, bytes) for s in streams(path, *stretch)]
        return [*found] or [()]
    if head[:4] == b"OggS":
        return _ranges(ogg_parts(path, size))
    if head[:4] == b"fLaC":
        return _ranges(flac_parts(path, size))
    return [()]


def _may_be_mpeg(head: bytes, path: Path) -> bool:
    """Whether `path` begins with `head` as an MP3 does, or is called one and known for nothing else."""
    return head[:2] in _MPEG_STARTS or (path.suffix.lower() == ".mp3" and not _KNOWN.match(head))


def _ranges(found: list[tuple[int, int]]) -> list[_Part]:
    return [(stretch,) for stretch in found] if len(found) > 1 else [()]


def _open(path: Path, part: _Part) -> soundfile.SoundFile | MpegFile:
    try:
        if isinstance(part, Stream):
            return MpegFile(path, part)
        with without_mpg123():  # it looks for MP3 in what nothing else knows
            file = ViewedFile(View(path, part)) if part else soundfile.SoundFile(path)
    except soundfile.LibsndfileError as error:
        raise UnreadableError(error.error_string.rstrip(".")) from error
    if file.format == "MP3":
        file.close()
        raise UnreadableError("no audio found in it")
    return file


def _read(file: soundfile.SoundFile | MpegFile, count: int) -> Block:
    with _told():
        block: Block = file.read(count, dtype="float32", always_2d=True)
    return block


def _damaged(file: soundfile.SoundFile | MpegFile) -> int:
    return file.damaged if isinstance(file, MpegFile) else 0


def _lengths(path: Path, number: int, part: _Part, first: soundfile.SoundFile | MpegFile) -> tuple[int, int]:
    """Frames of a part, and how many its header promises: by decoding it where that can't be trusted."""
    trusted = not isinstance(part, Stream) or part.counted
    if number == 0 and trusted:
        return int(first.frames), 0
    with closing(_open(path, part)) as file:
        if trusted:
            return int(file.frames), 0
        count = counted(path, number, partial(_read, file))
        promised = int(file.frames) if isinstance(part, Stream) and part.headed else count.frames + (not count.whole)
        return count.frames, promised


@contextmanager
def _told() -> Iterator[None]:
    """Turn what libsndfile says of data into `UndecodableError`."""
    try:
        yield
    except soundfile.LibsndfileError as error:
        raise UndecodableError(error.error_string.rstrip(".")) from error
    except UnreadableError as error:
        raise UndecodableError(str(error)) from error


def _breaks_promise(log: str) -> bool:
    """Whether libsndfile's log tells of less data than the header promises."""
    sizes = [(int(promised), int(found)) for promised, found in _PROMISE.findall(log)]
    return any(found < promised < _EMPTY_PROMISE for promised, found in sizes)
