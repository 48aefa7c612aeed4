"""Files of text and JSON that users name; and writing, so that a kill at any moment leaves no half file.

What is written has a temporary name first and is then renamed.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

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

NOBODY = 999_999_999
"""The number of no process."""

_PART = re.compile(r"\.personaplex\.(?P<target>[0-9a-f]{16})\.(?P<process>\d{1,9})\.[0-9a-f]{8}\.part")
_OLD_PART = re.compile(r"\.(?P<stem>.+)\.(?P<process>\d{1,9})\.[0-9a-f]{8}\.part(?P<suffix>(\.[^.]*)?)")


def temporary(path: Path, process: int | None = None) -> Path:
    """A new temporary path beside `path`: hidden, of a kind that nobody searches for, and short whatever the name.

    It goes with a process, this one if none is given, of which `stale_parts` tells whether it is needed still.
    """
    process = os.getpid() if process is None else process
    return path.parent / f".personaplex.{_digest(path.name)}.{process}.{secrets.token_hex(4)}.part"


def is_temporary(path: Path) -> bool:
    """Whether a path is one that `temporary` makes."""
    return _PART.fullmatch(path.name) is not None


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def check_utf8(text: str, name: str, mend: str = "write it in UTF-8") -> None:
    """Raise UsageError for text with bytes that are not UTF-8: no tokenizer and no transcript can take it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} is not valid UTF-8", mend) from error


def read_text(path: Path, name: str) -> str:
    """The text of a file that the option `name` gives; raises UsageError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name} {path}: {error.strerror}", "name a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} {path}: not UTF-8 text", "save it as UTF-8") from error


def read_json(path: Path, unreadable: str, broken: str) -> Any:
    """What a JSON file holds; raises UsageError with the mend `unreadable` or, for one that is no JSON, `broken`."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", unreadable) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not whole JSON ({error})", broken) from error


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, or None if there is no whole one."""
    try:
        document = read_json(path, "", "") if path.is_file() else None  # of a pipe, there may be no end
    except (UsageError, OSError):
        return None
    return document if isinstance(document, dict) else None


def schema_of(document: Any) -> Any:
    """What a JSON document says its `schema` is; None without one."""
    return document.get("schema") if isinstance(document, dict) else None


def check_schema(document: Any, schema: str, path: Path, mend: str) -> None:
    """Raise UsageError for a document, that of `path`, of another schema."""
    found = schema_of(document)
    if found != schema:
        raise UsageError(f'{path}: its schema is {json.dumps(found)}, this version reads "{schema}"', mend)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it takes `path`'s place.

    On any exception it is removed and `path` stays as it was. An `OSError` becomes an `InputError` naming `path`;
    so does a `path` that is no file, such as a folder or a device.
    """
    part = temporary(path)
    try:
        with writing(path):
            _check_place(path)
            yield part
            _sync(part)
            part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def placing_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` to fill; on success it takes `path`'s place, which is empty or not there.

    On any exception it is removed, and an `OSError` becomes an `InputError` naming `path`.
    What killed processes left is removed too.
    """
    for stale in stale_parts([path]).get(path, ()):
        shutil.rmtree(stale, ignore_errors=True)
    part = temporary(path)
    try:
        with writing(path):
            part.mkdir(parents=True)
            yield part
            if path.is_dir():
                path.rmdir()  # not every system replaces an empty one
            part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check_place(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot write: it is a folder or a device", "name a file")


def _sync(part: Path) -> None:
    with part.open("rb+") as file:
        os.fsync(file.fileno())


class Staged:
    """Files that are written under temporary names and take their places together, once all of them are whole.

    A context: what has not taken its place by its end is removed. Errors are those of `replacing`.
    """

    def __init__(self) -> None:
        self._parts: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)

    @property
    def paths(self) -> Collection[Path]:
        """Where the files are to stand, in the order in which they were written."""
        return self._parts.keys()

    def write(self, path: Path, content: bytes | memoryview) -> None:
        """Write what is to stand at `path`."""
        with writing(path):
            _check_place(path)
            part = self._parts[path] = temporary(path)
            part.write_bytes(content)
            _sync(part)

    def place(self, removed: Iterable[Path] = ()) -> None:
        """Give each its place, in the order in which they were written, and remove the files `removed`.

        What was there stands aside meanwhile, under temporary names, what was written last the first of all. If
        anything fails, all is as it was.
        """
        aside: dict[Path, Path] = {}
        try:
            for path in reversed([*removed, *self._parts]):
                with writing(path):
                    _check_place(path)
                    if os.path.lexists(path):
                        aside[path] = temporary(path)
                        path.replace(aside[path])
            for path, part in self._parts.items():
                with writing(path):
                    part.replace(path)
        except BaseException:
            self._put_back(aside)
            raise
        for spare in aside.values():
            with suppress(OSError):
                spare.unlink(missing_ok=True)

    def _put_back(self, aside: Mapping[Path, Path]) -> None:
        for path, part in self._parts.items():
            if not part.exists():  # it had its place already
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        for path, spare in reversed(list(aside.items())):
            with suppress(OSError):
                spare.replace(path)


def stale_parts(paths: Iterable[Path]) -> dict[Path, list[Path]]:
    """The temporary files that killed processes left of each of `paths`.

    To be called before this process writes any: one with its number is that of a process before it, in a container
    perhaps, where numbers are few.
    """
    folders: dict[Path, dict[str, Path]] = {}
    for path in paths:
        folders.setdefault(path.parent, {}).update({path.name: path, _digest(path.name): path})
    found: dict[Path, list[Path]] = {}
    for folder, wanted in folders.items():
        for part in folder.glob(".*.part*"):
            match = _PART.fullmatch(part.name) or _OLD_PART.fullmatch(part.name)
            if match is None or _is_alive(int(match["process"])):
                continue
            names = match.groupdict()
            target = wanted.get(names.get("target") or names["stem"] + names["suffix"])
            if target is not None:
                found.setdefault(target, []).append(part)
    return found


def remove_stale_parts(paths: Iterable[Path]) -> None:
    """Remove the `stale_parts` of `paths`."""
    for parts in stale_parts(paths).values():
        for part in parts:
            with suppress(OSError):
                part.unlink()


def _is_alive(process: int) -> bool:
    return process != os.getpid() and psutil.pid_exists(process)


def ignores_case(folder: Path) -> bool:
    """Whether a folder takes names that differ in case alone for one; a file is made in it to find out.

    Raises InputError if none can be.
    """
    probe = temporary(folder / "case")
    with writing(folder):
        probe.touch()
        try:
            return probe.with_name(probe.name.upper()).exists()
        finally:
            probe.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there; an `InputError` if that fails."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all, making its folder; an `InputError` if that fails."""
    make_folder(path.parent)
    with replacing(path) as part:
        part.write_bytes(encoded(text))


def encoded(text: str) -> bytes:
    """`text` in UTF-8. A byte of a name that is not UTF-8, a lone surrogate here, is written `\\udc80` to `\\udcff`.

    In JSON that is the same string again, from which Python makes the name's bytes.
    """
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors into `InputError`."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, "write to another place")
        raise InputError(f"{path}: cannot write: {error.strerror or error}", mend) from error
