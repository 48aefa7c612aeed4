"""Folders for what lies here for a while only: they go with the process, or when another finds its process dead."""

import atexit
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

import psutil

from personaplex.core.errors import StorageError

_NAME = re.compile(r"personaplex\.(?P<process>\d{1,9})\..+")


def new_folder(kind: str) -> Path:
    """An empty folder of this process; raises StorageError."""
    try:
        return Path(tempfile.mkdtemp(prefix=f"{kind}.", dir=_own()))
    except OSError as error:
        what = f"{tempfile.gettempdir()}: no folder can be made in it: {error.strerror}"
        raise StorageError(what, "set TMPDIR to a folder that can be written to") from error


@cache
def _own() -> Path:
    place = Path(tempfile.gettempdir()).absolute()
    for folder in place.glob("personaplex.*"):
        match = _NAME.fullmatch(folder.name)
        if match is not None and not psutil.pid_exists(int(match["process"])):
            shutil.rmtree(folder, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"personaplex.{os.getpid()}.", dir=place))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
