"""Where the MP3 streams of a file lie, and how long each is: by its frames, which are counted one by one.

An encoder that can go back puts a frame before the sound that counts the others ("Xing" or "Info"). libsndfile believes
it, and without one guesses from the size and the first frame.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_SYNC = re.compile(rb"\xff[\xe2-\xff]")
_COUNTED = re.compile(rb"Xing|Info")
_TAGS = re.compile(rb"ID3|TAG|APETAGEX|LYRICSBEGIN")
_KBPS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2 and 2.5
)
_RATES = (44_100, 48_000, 32_000)
_DECODER_DELAY = 529  # samples
_ENOUGH = 3  # frames in a row that make a stream
_LONGEST = 1442  # bytes of a frame, which may be in part at a cut file's end


@dataclass(frozen=True)
class Stream:
    """Whole MP3 frames of one rate, one after the other: the first byte and the one after the last.

    It is `headed` if a frame that counts the others stands first. `samples` are those of the sound, None where that
    frame is right and the decoder knows better: it also leaves out what the encoder put around the sound. The stream is
    `cut` if fewer frames follow than were counted. `damaged` counts the gaps that hold more than a tag: before it, and
    of the last stream also behind it.
    """

    start: int
    end: int
    headed: bool
    samples: int | None
    skipped: int = 0
    cut: bool = False
    damaged: int = 0


@dataclass(frozen=True)
class _Run:
    """Frames that follow each other, of one shape."""

    start: int
    end: int
    frames: int


def streams(path: Path, start: int, end: int) -> list[Stream]:
    """The streams within bytes `start` to `end`, one after the other; none if there is no MP3."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    heads = {place for match in _COUNTED.finditer(data) if (place := _counting_frame(data, match.start())) is not None}
    runs = list(_runs(data, heads))
    if not runs:
        return []
    between = (data[before.end : run.start] for before, run in pairwise(runs))
    damaged: list[int] = [_is_junk(data[: runs[0].start]), *map(_is_damaged, between)]
    damaged[-1] += _is_junk(data[runs[-1].end :])
    return [_stream(data, run, start, run.start in heads, gaps) for run, gaps in zip(runs, damaged, strict=True)]


def tag_length(head: bytes) -> int:
    """Bytes of the ID3 tag that begins with the ten of `head`, 0 if there is none."""
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    return 10 + sum(byte << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))


def _stream(data: bytes, run: _Run, offset: int, headed: bool, damaged: int) -> Stream:
    """The stream of a run, without its counting frame if that would hide some of the sound."""
    long = 1152 if data[run.start + 1] & 8 else 576  # samples of a frame
    start, end, frames = offset + run.start, offset + run.end, run.frames
    promised = _promised(data, run.start) if headed else None
    if promised is not None and promised in (frames, frames - 1):  # some encoders count their counting frame too
        return Stream(start, end, True, None, _skipped(data, run.start), damaged=damaged)
    if promised is not None and promised > frames:
        skipped = _skipped(data, run.start)
        return Stream(start, end, True, max(0, (frames - 1) * long - skipped), skipped, True, damaged)
    if headed:
        start, frames = start + _size(data, run.start), frames - 1
    return Stream(start, end, False, frames * long, damaged=damaged)


def _runs(data: bytes, heads: set[int]) -> Iterator[_Run]:
    """All runs of frames; one ends where another shape begins, or a frame of `heads`."""
    at = _next_frame(data, 0)
    while at is not None:
        start, shape, frames = at, _shape(data, at), 0
        while (size := _size(data, at)) and at + size <= len(data) and _shape(data, at) == shape:
            if frames and at in heads:
                break
            at, frames = at + size, frames + 1
        yield _Run(start, at, frames)
        at = _next_frame(data, at)


def _next_frame(data: bytes, at: int) -> int | None:
    """Where the next frame starts that is followed by others, or by the end."""
    at += tag_length(data[at : at + 10])  # pictures in a tag hold anything
    for match in _SYNC.finditer(data, min(at, len(data))):
        if _is_run(data, match.start()):
            return match.start()
    return None


def _is_run(data: bytes, at: int) -> bool:
    """Whether some frames of one shape follow each other from `at` on, or fewer up to the end."""
    shape, frames = _shape(data, at), 0
    while frames < _ENOUGH and (size := _size(data, at)) and at + size <= len(data) and _shape(data, at) == shape:
        at, frames = at + size, frames + 1
    return frames == _ENOUGH or (frames > 0 and at == len(data))


def _shape(data: bytes, at: int) -> tuple[int, ...]:
    """What must not change within a stream: version, rate, and whether it has one channel."""
    head = data[at + 1 : at + 4]
    return (head[0] & 0x1E, head[1] & 0x0C, head[2] & 0xC0 == 0xC0) if len(head) == 3 else ()


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


def _is_damaged(gap: bytes) -> bool:
    """Whether what lies between two streams is more than a tag."""
    return bool(gap) and not _TAGS.match(gap)


def _is_junk(end: bytes) -> bool:
    """Whether what lies before the first stream or behind the last is more than a tag, zeros or a frame in part."""
    return len(end) > _LONGEST and _is_damaged(end) and any(end)


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


def _promised(data: bytes, place: int) -> int | None:
    """How many frames follow the counting one at `place` by its word, None if it does not say."""
    mark = next(match.end() for match in [_COUNTED.search(data, place)] if match)
    return int.from_bytes(data[mark + 4 : mark + 8], "big") if data[mark + 3] & 1 else None
