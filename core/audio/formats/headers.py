"""Headers of uncompressed files that were never finished or say what can't be: what to read instead.

A recorder writes the header first, with sizes of nothing, and goes back to it at the end. One that was killed did not.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from personaplex.core.audio.formats.views import Piece
from personaplex.core.errors import InputError

UNFINISHED = "the file's header was never finished: the sound is read to the file's end"
_SEVERAL = "the file holds {} stretches of sound (data chunks): they are read one after the other"

_MP3 = 0x55
_NAME = re.compile(rb"[A-Za-z_][ -~]{3}|TAG")
_NOTHING = 64 * 1024  # zeros to look at: some recorders fill up the last sector of a disk
_LITTLE = 4096  # bytes behind the sound that are more likely junk than more of it
_TO_THE_END = 0x7FFF_0000  # what programs that write to a pipe promise, or more; libsndfile reads to the end


@dataclass(frozen=True)
class Repaired:
    """What to read of a file, and what to tell; `mpeg` if the pieces are a bare MP3 stream."""

    pieces: tuple[Piece, ...]
    warnings: tuple[str, ...] = ()
    mpeg: bool = False


@dataclass(frozen=True)
class _Chunk:
    """A chunk's name, where its size stands, where its content starts, and the size."""

    name: bytes
    size_at: int
    start: int
    size: int


def repaired(path: Path, size: int) -> Repaired | None:
    """What to read of the `size` bytes of `path` in place of them all; None if they are well, or not uncompressed.

    Raises `InputError` for a header that can't be one of sound.
    """
    with path.open("rb") as file:
        head = file.read(32)
        if head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE":
            return _wav(path, file, size, head[:4] != b"RIFF")
        if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
            return _aiff(file, size)
        if head[:4] == b"caff":
            return _caf(file, size)
        if head[:4] == b".snd" and len(head) >= 24:
            return _au(head, size)
    return None


def _chunks(file: BinaryIO, size: int, at: int, layout: str, pad: int) -> Iterator[_Chunk]:
    length = struct.calcsize(layout)
    while at + 4 + length <= size:
        file.seek(at)
        name, number = file.read(4), file.read(length)
        if not _NAME.match(name):
            return
        (promised,) = struct.unpack(layout, number)
        yield _Chunk(name, at + 4, at + 4 + length, promised)
        if promised < 0:
            return
        end = at + 4 + length + promised
        at = end + end % pad if _follows(file, end + end % pad, size) else end


def _follows(file: BinaryIO, at: int, size: int) -> bool:
    """Whether at `at` the file ends, or something other than sound stands: a chunk, or nothing but zeros."""
    if at >= size:
        return True
    file.seek(at)
    data = file.read(_NOTHING)
    return bool(_NAME.match(data)) or not any(data) or len(data) < 4


def _unfinished(file: BinaryIO, size: int, chunk: _Chunk, promised: int) -> bool:
    end = chunk.start + promised
    if promised and size - end < _LITTLE:
        return False
    return end < size and not (_follows(file, end, size) or _follows(file, end + end % 2, size))


def _wav(path: Path, file: BinaryIO, size: int, wide: bool) -> Repaired | None:
    chunks = list(_chunks(file, size, 12, "<I", 2))
    by_name = {chunk.name: chunk for chunk in reversed(chunks)}
    sound = [chunk for chunk in chunks if chunk.name == b"data"]
    form = by_name.get(b"fmt ")
    if form is None or not sound:
        return None
    file.seek(form.start)
    content = file.read(min(form.size, 64))
    if len(content) < 16:
        return None
    tag, channels, rate = struct.unpack("<HHI", content[:8])
    _check_wav(path, channels, rate)
    promised = sound[0].size
    if wide and promised == 0xFFFF_FFFF and (sizes := by_name.get(b"ds64")):
        file.seek(sizes.start + 8)
        (promised,) = struct.unpack("<Q", file.read(8))
    to_the_end = not wide and promised >= _TO_THE_END
    unfinished = not to_the_end and _unfinished(file, size, sound[0], promised)
    stretches = [(sound[0].start, size if unfinished else min(size, sound[0].start + promised))]
    if not unfinished:
        stretches += [(chunk.start, min(size, chunk.start + chunk.size)) for chunk in sound[1:] if chunk.size]
    warnings: tuple[str, ...] = (UNFINISHED,) if unfinished else ()
    if len(stretches) > 1:
        warnings += (_SEVERAL.format(len(stretches)),)
    if tag == _MP3:
        return Repaired(tuple(stretches), warnings, mpeg=True)
    if not warnings:
        return None
    total = sum(end - start for start, end in stretches)
    header = b"WAVEfmt " + struct.pack("<I", len(content)) + content + b"data"
    sizes32 = struct.pack("<I", min(total, 0xFFFF_FFFF))
    return Repaired((b"RIFF" + sizes32 + header + sizes32, *stretches), warnings)


def _check_wav(path: Path, channels: int, rate: int) -> None:
    mend = "its header is damaged: make the file anew from its source"
    if not rate:
        raise InputError(f"{path}: is not audio that can be read: its header gives a rate of 0 samples a second", mend)
    if not channels:
        raise InputError(f"{path}: is not audio that can be read: its header gives 0 channels", mend)


def _aiff(file: BinaryIO, size: int) -> Repaired | None:
    sound = next((chunk for chunk in _chunks(file, size, 12, ">I", 2) if chunk.name == b"SSND"), None)
    if sound is None or not sound.size:  # libsndfile reads one of size 0 to the end
        return None
    if sound.size >= _TO_THE_END or not _unfinished(file, size, sound, sound.size):
        return None
    return _resized(sound, size, struct.pack(">I", min(size - sound.start, 0xFFFF_FFFF)))


def _caf(file: BinaryIO, size: int) -> Repaired | None:
    sound = next((chunk for chunk in _chunks(file, size, 8, ">q", 1) if chunk.name == b"data"), None)
    if sound is None:
        return None
    content = struct.pack(">q", size - sound.start)
    if sound.size == -1:  # to the end, as the format allows, and libsndfile doesn't know
        return Repaired(((0, sound.size_at), content, (sound.start, size)))
    cut = sound.size <= 4 or _unfinished(file, size, sound, sound.size)
    return _resized(sound, size, content) if cut and size > sound.start + 4 else None


def _au(head: bytes, size: int) -> Repaired | None:
    start, promised = struct.unpack(">II", head[4:12])
    missed = size - start - promised  # 0xFFFFFFFF is an unknown size
    if missed <= (_LITTLE if promised else 0) or start >= size:
        return None
    return Repaired(((0, 8), b"\xff" * 4, (12, size)), (UNFINISHED,))


def _resized(chunk: _Chunk, size: int, content: bytes) -> Repaired:
    return Repaired(((0, chunk.size_at), content, (chunk.start, size)), (UNFINISHED,))
