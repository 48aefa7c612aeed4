"""A folder of recordings: what is taken from it, and what is passed over."""

import json
import os
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from personaplex.core.audio.formats.suffixes import RECORDING_SUFFIXES
from personaplex.core.corpus.items import PassedOver
from personaplex.core.corpus.results import RUN, SCHEMA, TALK_SCHEMA

_ANSWER_SCHEMAS = ("personaplex.transcript/", "personaplex.golden/", "personaplex.conversation/")
_RUN_SCHEMAS = tuple(f"{schema.partition('/')[0]}/" for schema in (SCHEMA, TALK_SCHEMA))
SIDES = (".mix", ".a", ".b")
"""What the names of an answer's further WAVs have at their end."""


@dataclass(frozen=True)
class Walked:
    """The files chosen in a folder, relative to it and in sorted order; folders that can't be read; what was left."""

    files: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, OSError]] = field(default_factory=list)
    passed_over: PassedOver = field(default_factory=PassedOver)


def walk(folder: Path, output: Path | None, matching: set[Path] | None) -> Walked:
    """The recordings below `folder`, or the files of `matching`; not what is hidden, lies in `output` or a run left.

    Links to folders are not followed. What lies in `folder` itself is taken for recordings, even if a run left it.
    Raises OSError if `folder` can't be read.
    """
    walked, is_run = Walked(), _is_run(folder)
    over = walked.passed_over

    def unreadable(error: OSError) -> None:
        if Path(error.filename) == folder:
            raise error
        walked.unreadable.append((Path(error.filename).relative_to(folder), error))

    for where, folders, names in os.walk(folder, onerror=unreadable):
        here = Path(where)
        folders[:] = [name for name in folders if not name.startswith(".") and not _same(here / name, output)]
        for told, leaves in ((over.links, Path.is_symlink), (over.runs, _is_run)):
            told += [named(here.relative_to(folder) / name) for name in folders if leaves(here / name)]
            folders[:] = [name for name in folders if not leaves(here / name)]
        for name in names:
            path, relative = here / name, here.relative_to(folder) / name
            if name.startswith("."):
                continue
            if matching is None and path.suffix.lower() not in RECORDING_SUFFIXES:
                over.files[text(path.suffix.lower())] += 1
            elif (matching is None or path in matching) and not is_run and _is_answer(path):
                over.answers.append(named(relative))
            elif matching is None or path in matching:
                walked.files.append(relative)
    walked.files.sort(key=lambda path: path.parts)
    return walked


def named(path: Path) -> str:
    """A path as text that can be written as UTF-8, separated by `/`."""
    return text(path.as_posix())


def text(name: str) -> str:
    """A name as text that can be written as UTF-8: bytes that are none of it as `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _same(path: Path, other: Path | None) -> bool:
    return other is not None and path.resolve() == other.resolve()


def _is_run(folder: Path) -> bool:
    """Whether a run has written to the folder."""
    return any(_read(folder / RUN, schema) is not None for schema in _RUN_SCHEMAS)


def _is_answer(path: Path) -> bool:
    """Whether the file is an answer's WAV, mix or side, by the transcript or golden beside it."""
    stem = path.name.removesuffix(path.suffix)
    names = dict.fromkeys((stem, *(stem.removesuffix(side) for side in SIDES)))
    for name, schema in product(names, _ANSWER_SCHEMAS):
        document = _read(path.with_name(f"{name}.json"), schema)
        output = None if document is None else document.get("output")
        if isinstance(output, dict) and output.get("path") in {path.name, f"{name}{path.suffix}"}:
            return True
    return False


def _read(path: Path, schema: str) -> dict[str, Any] | None:
    """The JSON object in a file, if its `schema` starts so. It stands first, so that other files are not read whole."""
    try:
        with path.open("rb") as file:
            start = file.read(200)
            document = json.loads(start + file.read()) if schema.encode() in start else None
    except (OSError, ValueError, RecursionError):
        return None
    is_meant = isinstance(document, dict) and str(document.get("schema")).startswith(schema)
    return document if is_meant else None
