"""A folder that appears whole: it is written beside its place and renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from personaplex.core.errors import UsageError
from personaplex.core.files import make_folder, stale_parts, temporary, writing


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path` to write to; on success it takes `path`'s place, on any exception it is removed.

    What killed processes left of the same folder goes too. Raises UsageError if there is anything at `path` but an
    empty folder, InputError if it can't be written.
    """
    _refuse(path)
    make_folder(path.parent)
    for part in stale_parts([path]).get(path, []):
        shutil.rmtree(part, ignore_errors=True)
    part = temporary(path)
    try:
        with writing(path):
            part.mkdir()
            yield part
            if path.is_dir():
                path.rmdir()
            part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _refuse(path: Path) -> None:
    mend = "name a folder that is not there yet"
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        raise UsageError(f"{path}: is there and is no folder", mend)
    if path.is_dir():
        with writing(path):
            is_empty = not any(path.iterdir())
        if not is_empty:
            raise UsageError(f"{path}: is not empty, and nothing in it is replaced", mend)
