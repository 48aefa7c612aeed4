"""A recording as libsndfile reads it: the parts of a chained file one after the other, headers mended beforehand."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import soundfile

from personaplex.core.audio.formats.headers import repaired
from personaplex.core.audio.formats.mpeg_file import MpegFile
from personaplex.core.audio.formats.parts import Part, find_parts
from personaplex.core.audio.formats.source import CUT_SHORT, Block, Header, UndecodableError, file_size, other_shape
from personaplex.core.audio.formats.stderr import without_mpg123
from personaplex.core.audio.formats.views import View, ViewedFile

_UNKNOWN_LENGTH = 2**62  # libsndfile gives 2**63 - 1 for a FLAC that was written to a pipe
_DAMAGED = "damaged pieces of the MP3, which may sound wrong: {}"

# libsndfile shortens the data of a cut file silently, and tells only its log. Programs that write to a pipe promise
# about 2 or 4 GiB since they can't know better: such a promise says nothing.
_PROMISE = re.compile(r"^\W*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_EMPTY_PROMISE = 0x7FFF_0000


class UnreadableError(Exception):
    """What libsndfile says of a file that it does not read."""


class SoundFileSource:
    """The file `path`; raises `UnreadableError`, and `InputError` for a header that can't be one of sound."""

    def __init__(self, path: Path) -> None:
        mended = repaired(path, file_size(path))
        self._path, self._parts = path, find_parts(path, mended)
        self._told = mended.warnings if mended else ()
        self._cut = any(part.cut for part in self._parts)
        self._damaged = sum(part.stream.damaged for part in self._parts if part.stream)
        self._number, self._file = 0, _open(path, self._parts[0])
        try:
            self._format = self._file.samplerate, self._file.channels
            self._cut |= _breaks_promise(self._file.extra_info)
            self._lengths = [int(self._file.frames), *self._other_lengths()]
        except BaseException:
            self.close()
            raise
        self._at = 0  # in the open part

    def _other_lengths(self) -> Iterator[int]:
        """The frames of each part but the first, up to one that can't be opened."""
        seconds = self._file.frames / self._file.samplerate
        for number, part in enumerate(self._parts[1:], start=1):
            try:
                file = _open(self._path, part)
            except UnreadableError:
                self._cut, self._parts = True, self._parts[:number]
                return
            with closing(file):
                if (file.samplerate, file.channels) != self._format:
                    raise other_shape(self._path, seconds)
                seconds += file.frames / file.samplerate
                yield int(file.frames)

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
        """The next frames [≤ count, C]; none at the end. Raises `UndecodableError`."""
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


def _open(path: Path, part: Part) -> soundfile.SoundFile | MpegFile:
    try:
        if part.stream:
            return MpegFile(path, part.stream)
        with without_mpg123():  # it looks for MP3 in what nothing else knows
            file = ViewedFile(View(path, part.pieces)) if part.pieces else soundfile.SoundFile(path)
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
