"""Where one sound file ends and the next begins within a file: recorders append one after a hold or a transfer.

libsndfile reads the first alone.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

_BLOCK = 2**20
_FLAC = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")  # with the block that must come first
_OGG_HEADER = 27
_JUNK = 200  # bytes, too few for a page of sound; an old tag has 128
_POLYNOMIAL = 0x04C1_1DB7  # of an Ogg page's checksum


@dataclass
class OggPart:
    """A chained Ogg stream's first byte and the one after its last; where its first and last page with sound start.

    Where one of these two is damaged, libsndfile takes the stream for a shorter one.
    """

    start: int
    end: int
    first: int | None = None
    last: int | None = None
    whole: bool = True


def ogg_parts(path: Path, size: int) -> list[OggPart]:
    """The chained Ogg streams of a file: each begins anew with pages that say so."""
    parts: list[OggPart] = []
    begun, at = False, 0
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            page = file.read(_OGG_HEADER)
            if page[:4] != b"OggS" or len(page) < _OGG_HEADER:
                at = _next_page(file, at + 1, size)
                continue
            begins = bool(page[5] & 2)
            if not parts or (begins and begun):
                parts.append(OggPart(at, size))
            begun = not begins
            if any(page[6:14]):  # how many samples have come
                parts[-1].first = at if parts[-1].first is None else parts[-1].first
                parts[-1].last = at
            lengths = file.read(page[26])
            at += _OGG_HEADER + len(lengths) + sum(lengths)
        for part, following in pairwise(parts):
            part.end = following.start
        for part in parts:
            part.whole = _is_whole(file, part)
    return parts or [OggPart(0, size)]


def _next_page(file: BinaryIO, at: int, size: int) -> int:
    """Where the next page starts after damage, `size` if nowhere."""
    while at < size:
        file.seek(at)
        found = file.read(_BLOCK).find(b"OggS")
        if found >= 0:
            return at + found
        at += _BLOCK - 3
    return size


def _is_whole(file: BinaryIO, part: OggPart) -> bool:
    """Whether the first and the last page are as they were written, and what follows can't have been another."""
    if part.first is None or part.last is None:
        return True
    if not _is_sound(file, part.first) or not _is_sound(file, part.last):
        return False
    return part.end - file.tell() <= _JUNK or not any(file.read(min(_BLOCK, part.end - file.tell())))


def _is_sound(file: BinaryIO, at: int) -> bool:
    """Whether the page at `at` has the checksum that it says; reads to its end."""
    file.seek(at)
    header = file.read(_OGG_HEADER)
    lengths = file.read(header[26])
    page = header[:22] + bytes(4) + header[26:] + lengths + file.read(sum(lengths))
    checksum = 0
    for byte in page:
        checksum = (checksum << 8) & 0xFFFF_FFFF ^ _REMAINDERS[checksum >> 24 ^ byte]
    return checksum == int.from_bytes(header[22:26], "little")


def _remainder(byte: int) -> int:
    value = byte << 24
    for _ in range(8):
        value = (value << 1) ^ (_POLYNOMIAL if value & 0x8000_0000 else 0)
    return value & 0xFFFF_FFFF


_REMAINDERS = [_remainder(byte) for byte in range(256)]


def flac_parts(path: Path, size: int) -> list[tuple[int, int]]:
    """First byte and the one after the last of every FLAC stream of a file, tags before the first included."""
    starts: list[int] = []
    with path.open("rb") as file:
        at, tail = 0, b""
        while block := file.read(_BLOCK):
            data = tail + block
            starts += [at - len(tail) + match.start() for match in _FLAC.finditer(data)]
            at, tail = at + len(block), data[-7:]
    starts = [0, *starts[1:]]
    return list(zip(starts, [*starts[1:], size], strict=True))
