"""Where one sound file ends and the next begins within a file: recorders append one after a hold or a transfer.

libsndfile reads the first alone.
"""

import re
from pathlib import Path

_BLOCK = 2**20
_FLAC = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")  # with the block that must come first
_OGG_HEADER = 27


def ogg_parts(path: Path, size: int) -> list[tuple[int, int]]:
    """First byte and the one after the last of every chained Ogg stream: each begins anew with pages that say so."""
    starts: list[int] = []
    begun, at = False, 0
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            page = file.read(_OGG_HEADER)
            if page[:4] != b"OggS" or len(page) < _OGG_HEADER:
                at = _next_page(path, at + 1, size)
                continue
            begins = bool(page[5] & 2)
            if begins and (begun or not starts):
                starts.append(at)
            begun = not begins
            lengths = file.read(page[26])
            at += _OGG_HEADER + len(lengths) + sum(lengths)
    starts = starts or [0]
    return list(zip(starts, [*starts[1:], size], strict=True))


def _next_page(path: Path, at: int, size: int) -> int:
    """Where the next page starts after damage, `size` if nowhere."""
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            found = file.read(_BLOCK).find(b"OggS")
            if found >= 0:
                return at + found
            at += _BLOCK - 3
    return size


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
