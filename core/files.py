"""Files of text that users name; and writing, so that a kill at any moment leaves no half file.

What is written has a temporary name first and is then renamed.
"""

import errno
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from personaplex.core.errors import InputError, UsageError

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


def check_utf8(text: str, name: str) -> None:
    """Raise UsageError for text with bytes that are not UTF-8: no tokenizer and no transcript can take it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} is not valid UTF-8", "write it in UTF-8") from error


def read_text(path: Path, name: str) -> str:
    """The text of a file that the option `name` gives; raises UsageError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name} {path}: {error.strerror}", "name a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} {path}: not UTF-8 text", "save it as UTF-8") from error


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
