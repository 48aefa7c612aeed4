"""What a format of data sets is: a writer that takes a split's calls one after the other."""

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from personaplex.core.errors import InputError
from personaplex.exports.calls import Call
from personaplex.exports.tracks import PLAIN, Placed, place

Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Where a split is written, and where it will lie: `folder` takes the place of `final` when all is whole."""

    folder: Path
    final: Path
    link: bool

    def at_last(self, path: Path) -> str:
        """The absolute path that a file in `folder` will have."""
        return (self.final.absolute() / path.relative_to(self.folder)).as_posix()

    def relative(self, path: Path) -> str:
        """A file's path below `folder`."""
        return path.relative_to(self.folder).as_posix()


class Writer(Protocol):
    """Writes the calls of one split."""

    def add(self, call: Call) -> None:
        """Write a call; raises InputError, and leaves nothing of it then."""

    def close(self) -> None:
        """Write what stands for all of them."""


@dataclass(frozen=True)
class Format:
    """One `--to`. `finish` writes what stands for all splits, given what each of them holds."""

    writer: Callable[[Target], Writer]
    links: bool = True
    splits: bool = True
    finish: Callable[[Path, Mapping[str, list[Call]]], None] | None = None


@dataclass(frozen=True)
class Sides:
    """Both sides' files in an export."""

    agent: Placed
    caller: Placed


def place_sides(call: Call, target: Target, suffixes: tuple[str, ...] = PLAIN) -> Sides:
    """Both sides as `audio/<id>.agent.wav` and `.caller.wav`; raises InputError, and leaves neither then."""
    stem = target.folder / "audio" / call.id
    made: list[Placed] = []
    try:
        for name, track in (("agent", call.agent), ("caller", call.caller)):
            made.append(place(track, stem.with_name(f"{stem.name}.{name}"), link=target.link, suffixes=suffixes))
    except InputError:
        for one in made:
            with suppress(OSError):
                one.path.unlink()
        raise
    return Sides(*made)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, and their folder; compressed, and always to the same bytes, for a name in `.gz`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    content = text.encode("utf-8", "backslashreplace")
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
