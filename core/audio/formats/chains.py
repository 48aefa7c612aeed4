"""Where one sound file ends and the next begins within a file: recorders append one after a hold or a transfer.

libsndfile reads the first alone.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_BLOCK = 2**20
_FLAC = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")  # with the block that must come first
_OGG_HEADER = 27
_JUNK = 512  # bytes, fewer than a page of sound
_POLYNOMIAL = 0x04C1_1DB7  # of an Ogg page's checksum


@dataclass(frozen=True)
class OggPart:
    """A chained Ogg stream: its first byte, the one after its last, and whether its last page is whole and ends it."""

    start: int
    end: int
    whole: bool


def ogg_parts(path: Path, size: int) -> list[OggPart]:
    """The chained Ogg streams of a file: each begins anew with pages that say so."""
    starts: list[int] = []
    lasts: list[int] = []
    begun, at = False, 0
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            page = file.read(_OGG_HEADER)
            if page[:4] != b"OggS" or len(page) < _OGG_HEADER:
                at = _next_page(file, at + 1, size)
                continue
            begins = bool(page[5] & 2)
            if not starts or (begins and begun):
                starts.append(at)
                lasts.append(at)
            begun = not begins
            lasts[-1:] = [at]
            lengths = file.read(page[26])
            at += _OGG_HEADER + len(lengths) + sum(lengths)
        if not starts:
            return [OggPart(0, size, whole=True)]
        parts = zip(starts, [*starts[1:], size], lasts, strict=True)
        return [OggPart(start, end, _is_whole(file, last, end)) for start, end, last in parts]


def _next_page(file: BinaryIO, at: int, size: int) -> int:
    """Where the next page starts after damage, `size` if nowhere."""
    while at < size:
        file.seek(at)
        found = file.read(_BLOCK).find(b"OggS")
        if found >= 0:
            return at + found
        at += _BLOCK - 3
    return size


def _is_whole(file: BinaryIO, at: int, end: int) -> bool:
    """Whether the page at `at` has the checksum that it says, and what follows up to `end` can't have been another."""
    file.seek(at)
    header = file.read(_OGG_HEADER)
    lengths = file.read(header[26])
    page = header[:22] + bytes(4) + header[26:] + lengths + file.read(sum(lengths))
    behind = file.read(_BLOCK) if end - file.tell() > _JUNK else b""
    if any(behind):
        return False
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
