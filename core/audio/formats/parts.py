"""The sound files within a file: one, but for those that were joined."""

import re
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.audio.formats.chains import flac_parts, ogg_parts
from personaplex.core.audio.formats.headers import Repaired
from personaplex.core.audio.formats.mpeg import Stream, streams, tag_length
from personaplex.core.audio.formats.source import file_size
from personaplex.core.audio.formats.views import Piece

_MPEG_STARTS = tuple(bytes([0xFF, second]) for second in range(0xE2, 0x100))
_KNOWN = re.compile(rb"RIFF|RF64|fLaC|OggS|FORM|caff|\.snd|....ftyp", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """A sound file as `View` takes it, or an MP3 `stream`; without either, the whole file.

    It is `cut` where it is known to end too early.
    """

    pieces: tuple[Piece, ...] = ()
    stream: Stream | None = None
    cut: bool = False


def find_parts(path: Path, mended: Repaired | None) -> list[Part]:
    """The sound files of `path`, one at least, whose header is to be read as `mended` if that is not None."""
    size = file_size(path)
    head = _head(path)
    if mended and not mended.mpeg:
        return [Part(mended.pieces)]
    if mended or _may_be_mpeg(head, path):
        stretches = mended.pieces if mended else ((0, size),)
        found = [s for stretch in stretches if not isinstance(stretch, bytes) for s in streams(path, *stretch)]
        return [Part(stream=stream, cut=stream.cut) for stream in found] or [Part()]
    if head[:4] == b"OggS":
        parts = ogg_parts(path, size)
        return [Part(((one.start, one.end),) if len(parts) > 1 else (), cut=not one.whole) for one in parts]
    if head[:4] == b"fLaC":
        ranges = flac_parts(path, size)
        return [Part((stretch,)) for stretch in ranges] if len(ranges) > 1 else [Part()]
    return [Part()]


def _head(path: Path) -> bytes:
    """The first ten bytes behind a tag."""
    with path.open("rb") as file:
        head = file.read(10)
        if head[:3] == b"ID3":
            file.seek(tag_length(head))
            head = file.read(10)
    return head


def _may_be_mpeg(head: bytes, path: Path) -> bool:
    """Whether `path` begins with `head` as an MP3 does, or is called one and known for nothing else."""
    return head[:2] in _MPEG_STARTS or (path.suffix.lower() == ".mp3" and not _KNOWN.match(head))
