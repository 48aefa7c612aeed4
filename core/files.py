"""Writing files so that a kill at any moment leaves no half one: a temporary name first, then a rename."""

import errno
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from personaplex.core.errors import InputError

_MENDS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some of your quota, or write to another disk",
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EACCES: "choose a folder that this user may write to",
    errno.EPERM: "choose a folder that this user may write to",
    errno.EROFS: "choose a folder on a disk that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}

_PART = re.compile(r"\.(?P<stem>.+)\.(?P<process>\d{1,9})\.[0-9a-f]{8}\.part(?P<suffix>(\.[^.]*)?)")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, hidden and with its suffix, to write to; on success it takes `path`'s place.

    On any exception it is removed and `path` stays as it was. An `OSError` becomes an `InputError` naming `path`;
    so does a `path` that is no file, such as a folder or a device.
    """
    part = path.parent / f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.part{path.suffix}"
    try:
        with _writing(path):
            if path.exists() and not path.is_file():
                raise InputError(f"{path}: cannot write: it is a folder or a device", "name a file")
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remove_stale_parts(paths: Iterable[Path]) -> None:
    """Remove the temporary files that killed processes left of `paths`.

    To be called before this process writes any: one with its number is that of a process before it, in a container
    perhaps, where numbers are few.
    """
    names: dict[Path, set[str]] = {}
    for path in paths:
        names.setdefault(path.parent, set()).add(path.name)
    for folder, wanted in names.items():
        for part in folder.glob(".*.part*"):
            match = _PART.fullmatch(part.name)
            if match and match["stem"] + match["suffix"] in wanted and not _is_alive(int(match["process"])):
                with suppress(OSError):
                    part.unlink()


def _is_alive(process: int) -> bool:
    return process != os.getpid() and psutil.pid_exists(process)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there; an `InputError` if that fails."""
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, whole or not at all, making its folder; an `InputError` if that fails."""
    make_folder(path.parent)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn the system's errors into `InputError`."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, "write to another place")
        raise InputError(f"{path}: cannot write: {error.strerror or error}", mend) from error
