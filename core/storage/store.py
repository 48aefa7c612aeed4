"""Objects in a store: listed, fetched, put whole and removed, each tried again a few times.

What fails is a StorageError that names the object and no credentials; of one that isn't there, a
MissingError.
"""

import errno
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from personaplex.core.errors import StorageError
from personaplex.core.files import temporary
from personaplex.core.storage.urls import Stored, without_secrets

PAUSES = (0.5, 2.0)
"""Seconds before something is tried again."""

AT_A_TIME = 16
"""Objects that are fetched at the same time, where there are many."""

_RENAMING = {"file", "local", "ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs", "arrow_hdfs"}  # where files grow
_READ_ONLY = {"http", "https", "github", "zip", "tar", "libarchive", "data"}
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError, ValueError)
_HASHES = ("ETag", "etag", "md5Hash", "md5", "content_md5", "crc32c")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")

Done = TypeVar("Done")


class MissingError(StorageError):
    """There is no such object."""


@dataclass(frozen=True)
class Entry:
    """An object of a listing: bytes, and which content it has (None if the store doesn't tell).

    A `version` that starts with `hash` is of the content; else it tells of a time.
    """

    size: int | None
    version: str | None

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> "Entry":
        """What fsspec says of an object."""
        size = info.get("size")
        for kind, names in (("hash", _HASHES), ("time", _TIMES)):
            for name in names:
                if info.get(name):
                    return cls(size, f"{kind} {info[name]} of {size} bytes")
        return cls(size, None)


def known_scheme(scheme: str) -> bool:
    """Whether fsspec knows a kind of store, with whatever package."""
    from fsspec import available_protocols

    return scheme in available_protocols()


def check_writable(stored: Stored) -> None:
    """Raise StorageError where nothing can be written to."""
    _filesystem(stored)
    if stored.scheme in _READ_ONLY:
        raise StorageError(f"{stored}: {stored.scheme}:// can only be read", "write to a folder or to a bucket")


def listed(root: Stored) -> dict[str, Entry]:
    """The objects below a folder, by their names from there on; none if there is no such folder."""

    def find(system: Any, path: str) -> dict[str, Any]:
        system.invalidate_cache()
        found: dict[str, Any] = system.find(path, detail=True)
        return {name.removeprefix(path).removeprefix("/"): info for name, info in found.items() if name != path}

    return {name: Entry.of(info) for name, info in _tried(root, find).items()}


def pinned(stored: Stored) -> Stored:
    """The object with its version, which is asked for if it isn't known."""
    if stored.version is not None:
        return stored

    def ask(system: Any, path: str) -> Entry:
        system.invalidate_cache()
        return Entry.of(system.info(path))

    return replace(stored, version=_tried(stored, ask).version)


def fetch(stored: Stored, path: Path) -> None:
    """Copy an object to a file here; it is whole or not there."""
    part = temporary(path)

    def get(system: Any, name: str) -> None:
        system.get_file(name, str(part))

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tried(stored, get)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_bytes(stored: Stored) -> bytes:
    """What is in an object."""

    def read(system: Any, path: str) -> bytes:
        content: bytes = system.cat_file(path)
        return content

    return _tried(stored, read)


def put(path: Path, stored: Stored) -> None:
    """Copy a file to an object, which is whole as soon as it is there."""

    def store(system: Any, name: str) -> None:
        if stored.scheme not in _RENAMING:
            system.put_file(str(path), name)
            return
        parent, _, last = name.rpartition("/")
        part = f"{parent}/{temporary(Path(last)).name}"
        system.makedirs(parent, exist_ok=True)
        system.put_file(str(path), part)
        system.mv(part, name)

    _tried(stored, store)


def remove(stored: Stored) -> None:
    """Remove an object; one that is gone already is no error."""

    def delete(system: Any, path: str) -> None:
        with suppress(FileNotFoundError):
            system.rm_file(path)

    _tried(stored, delete)


def _tried(stored: Stored, act: Callable[[Any, str], Done]) -> Done:
    system, path = _filesystem(stored)
    for pause in (*PAUSES, None):
        try:
            return act(system, path)
        except Exception as error:  # stores raise what their libraries do
            if pause is None or _is_final(error):
                raise _told(stored, error) from error
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _filesystem(stored: Stored) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it."""
    from fsspec import filesystem, get_filesystem_class
    from fsspec.registry import known_implementations

    try:
        kind = get_filesystem_class(stored.scheme)
        # Not fsspec's url_to_fs, for which a :: in a name chains two URLs.
        return filesystem(stored.scheme, **kind._get_kwargs_from_urls(stored.url)), kind._strip_protocol(stored.url)
    except ImportError as error:
        needed = str(known_implementations.get(stored.scheme, {}).get("err") or error).removeprefix("Please ")
        raise StorageError(
            f"{stored}: a package that reads and writes {stored.scheme}:// is missing", needed[:1].lower() + needed[1:]
        ) from error
    except ValueError as error:
        if stored.scheme in known_implementations:
            raise _told(stored, error) from error
        what = f"{stored}: {stored.scheme}:// is no kind of store that fsspec knows"
        raise StorageError(what, "check the address") from error
    except Exception as error:  # of credentials that can't be read, say
        raise _told(stored, error) from error


def _is_final(error: Exception) -> bool:
    is_full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return isinstance(error, _FINAL) or is_full or "Credential" in type(error).__name__


def _told(stored: Stored, error: Exception) -> StorageError:
    if isinstance(error, FileNotFoundError):
        return MissingError(f"{stored}: is not there{_reason(error)}", "check the address")
    if isinstance(error, PermissionError) or "Credential" in type(error).__name__:
        mend = "give credentials that may, as the store's own tools take them; for S3, AWS_PROFILE names them"
        return StorageError(f"{stored}: access is denied{_reason(error)}", mend)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageError(f"{stored}: no room for a copy here", "free some space, or set TMPDIR to another disk")
    mend = "check the connection and the store, and run the same command again"
    return StorageError(f"{stored}: {type(error).__name__}{_reason(error)}", mend)


def _reason(error: Exception) -> str:
    text = without_secrets(" ".join(str(error).split()))[:300]
    return f" ({text.rstrip('.')})" if text else ""
