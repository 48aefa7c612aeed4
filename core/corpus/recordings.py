"""Where callers' recordings lie when a run is looked at again: its transcripts name them as the user did."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from personaplex.core.audio.reading import sha256


def source_folders(record: Mapping[str, Any] | None) -> tuple[Path, Path] | None:
    """Of a run's `run.json`, the folder that its paths are relative to and the one that it was started in.

    None without a record, and for one that doesn't say so.
    """
    known = record or {}
    source, volatile = known.get("source"), known.get("volatile")
    started = volatile.get("folder") if isinstance(volatile, dict) else None
    if not isinstance(source, str) or not isinstance(started, str):
        return None
    return folder_of(Path(started, source)), Path(started)


def folder_of(source: Path) -> Path:
    """What the paths of a source are relative to: the folder that it is, or the one that it lies in."""
    return source if source.is_dir() else source.parent


def find_recording(places: Iterable[Path], digest: str) -> tuple[Path | None, Path | None]:
    """The first file of `places` whose SHA-256 is `digest`, and another that is there; raises InputError.

    The other one has the recording's name and not its content.
    """
    changed = None
    for path in places:
        if os.path.isfile(path):
            if sha256(path) == digest:
                return path, changed
            changed = path
    return None, changed
