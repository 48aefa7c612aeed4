"""Where the MP3 streams of a file lie, and whether the header of each tells the truth about its length.

An encoder that can go back puts a frame before the sound that counts the others ("Xing" or "Info"). libsndfile believes
it, and without one guesses from the size and the first frame.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_SYNC = re.compile(rb"\xff[\xe2-\xff]")
_COUNTED = re.compile(rb"Xing|Info")
_KBPS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2 and 2.5
)
_RATES = (44_100, 48_000, 32_000)
_DECODER_DELAY = 529  # samples
_ENOUGH = 3  # frames in a row that make a stream


@dataclass(frozen=True)
class Stream:
    """An MP3 stream's first byte and the one after its last.

    It is `headed` if a frame that counts the others stands first, and `counted` if that one is right. Of a headed one
    its decoder leaves out `skipped` samples at the start, which are the encoder's.
    """

    start: int
    end: int
    headed: bool
    counted: bool
    skipped: int = 0


def streams(path: Path, start: int, end: int) -> list[Stream]:
    """The streams within bytes `start` to `end`, one after the other; none if there is no MP3."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    headers = [
        place for match in _COUNTED.finditer(data) if (place := _counting_frame(data, match.start())) is not None
    ]
    first = _first_frame(data)
    if first is None:
        return []
    places = sorted({first, *(place for place in headers if place > first)})
    found = []
    for place, stop in zip(places, [*places[1:], len(data)], strict=True):
        surplus = _surplus(data, place, stop) if place in headers else None
        if place not in headers:
            found.append(Stream(start + place, start + stop, headed=False, counted=False))
        elif surplus is None or surplus > 0:  # what it doesn't count would not be heard
            found.append(Stream(start + place + _size(data, place), start + stop, headed=False, counted=False))
        else:
            found.append(Stream(start + place, start + stop, True, not surplus, _skipped(data, place)))
    return found


def tag_length(head: bytes) -> int:
    """Bytes of the ID3 tag that begins with the ten of `head`, 0 if there is none."""
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    return 10 + sum(byte << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))


def _size(data: bytes, at: int) -> int:
    """Bytes of the layer III frame at `at`, 0 if there is none."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return 0
    version, kbps, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or kbps in (0, 15) or rate == 3:
        return 0
    one = version == 3  # MPEG 1
    hertz = _RATES[rate] >> (0 if one else 1 if version == 2 else 2)
    return (144 if one else 72) * 1000 * _KBPS[not one][kbps] // hertz + (head[2] >> 1 & 1)


def _run(data: bytes, at: int, limit: int) -> int:
    """How many frames follow each other from `at` on, `limit` at most."""
    count = 0
    while count < limit and (size := _size(data, at)):
        at += size
        count += at <= len(data)
    return count


def _first_frame(data: bytes) -> int | None:
    at = tag_length(data[:10])  # pictures in a tag hold anything
    for match in _SYNC.finditer(data, min(at, len(data))):
        if _run(data, match.start(), _ENOUGH) == _ENOUGH or _is_last(data, match.start()):
            return match.start()
    return None


def _is_last(data: bytes, at: int) -> bool:
    """Whether the frames from `at` on, one or two, end with the data."""
    while at < len(data) and (size := _size(data, at)):
        at += size
    return at == len(data)


def _counting_frame(data: bytes, mark: int) -> int | None:
    """Where the frame starts whose mark is at `mark`: its side information lies between, and perhaps a checksum."""
    for gap in (36, 21, 13):
        for place in (mark - gap, mark - gap - 2):
            if place >= 0 and _size(data, place) > gap and not any(data[place + 4 + (place != mark - gap) * 2 : mark]):
                return place
    return None


def _skipped(data: bytes, place: int) -> int:
    """The samples before the sound, by the tag that LAME and its like put into the counting frame at `place`."""
    mark = next(match.start() for match in [_COUNTED.search(data, place)] if match)
    tag = data[mark + 120 : mark + 144]
    if len(tag) < 24 or data[mark + 7] & 15 != 15 or not tag[:4].isalnum():
        return 0
    return (tag[21] << 4 | tag[22] >> 4) + _DECODER_DELAY


def _surplus(data: bytes, place: int, stop: int) -> int | None:
    """How many more frames follow that at `place` up to `stop` than it counts; None if it has no count."""
    mark = next(match.end() for match in [_COUNTED.search(data, place)] if match)
    if not data[mark + 3] & 1:
        return None
    promised = int.from_bytes(data[mark + 4 : mark + 8], "big")
    more = _run(data[:stop], place + _size(data, place), promised + 1) - promised
    return 0 if more == -1 else more  # some encoders count their counting frame too
