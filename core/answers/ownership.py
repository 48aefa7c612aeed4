"""Whose a file in the way is: an answer's that personaplex made and nobody touched since, or somebody else's.

A transcript names the files that were made with it, each with its SHA-256; so does the row of results. What neither
names, or what has changed since, is somebody's work: it is never replaced or removed.
"""

import hashlib
import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from personaplex.core.answers.transcript import CONVERSATION, SCHEMA
from personaplex.core.errors import InputError
from personaplex.core.files import Staged, read_object, schema_of, stale_parts

MEND = "move it away, or choose another folder with -o"


def made_files(said: Mapping[str, Any] | None, folder: Path) -> dict[Path, str]:
    """The files that a transcript in `folder`, or a row of results, says were made with it, and their SHA-256."""
    files = None if said is None else said.get("files")
    if not isinstance(files, dict):
        return {}
    return {folder / name: digest for name, digest in files.items() if name and os.path.basename(name) == name}


def made_with(transcript: Path) -> dict[Path, str]:
    """The files that were made with the transcript in a file; none if there is none."""
    return made_files(read_object(transcript), transcript.parent)


def is_unchanged(path: Path, sha256: str) -> bool:
    """Whether a file is there, itself and no link, with this content."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def refuse_foreign(
    outputs: Iterable[Path], transcript: Path, made: Mapping[Path, str], gone: Container[Path] = ()
) -> None:
    """Raise InputError if an output would replace a file that is not of this answer, or was changed since.

    `made` are the files known to be of the answer, beside those that the `transcript` there names; what is `gone` will
    be swept before.
    """
    _check_folder(transcript.parent)
    document = read_object(transcript)
    known = {**made, **made_files(document, transcript.parent)}
    for path in outputs:
        if path in gone or not os.path.lexists(path):
            continue
        if path == transcript:
            is_ours = not path.is_symlink() and schema_of(document) in (SCHEMA, CONVERSATION)
        else:
            is_ours = path in known and is_unchanged(path, known[path])
        if not is_ours:
            state = "was changed after it was made" if path in known else "is there and was not made for this item"
            raise InputError(f"{path}: {state}, and is not replaced", MEND)


def _check_folder(folder: Path) -> None:
    """Raise InputError if a folder isn't there and can't be made, since a file has its name or that of one above it."""
    there = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    if os.path.lexists(there) and not there.is_dir():
        raise InputError(f"{there}: is there and is no folder, and is not replaced", MEND)


def place(staged: Staged, transcript: Path, *, clears: bool) -> None:
    """Give an answer's files their places; if it `clears`, what an older one had beyond them is removed.

    The transcript is the last of the files. The older one is therefore the first to stand aside: so the new files
    can't be taken for its own, and what a kill leaves can be told from somebody else's (see `leftovers`).
    """
    older = made_with(transcript) if clears else {}
    others = [path for path, sha256 in older.items() if path not in staged.paths and is_unchanged(path, sha256)]
    staged.place(removed=others)


def leftovers(outputs: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """What killed processes left of some outputs: temporary files, and orphans.

    An orphan had its place when its transcript hadn't yet: that is among the temporary files, and names it.
    """
    parts, orphans = [], []
    for path, stale in stale_parts(outputs).items():
        parts += stale
        if path.suffix == ".json":
            owned = made_with(path)
            for part in stale:
                named = made_files(read_object(part), path.parent)
                orphans += [file for file, sha256 in named.items() if file not in owned and is_unchanged(file, sha256)]
    return parts, orphans
