"""Copies here of objects that are read: fetched when they are needed, and no more of them kept than fit in a limit."""

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from personaplex.core.errors import InputError, StorageError
from personaplex.core.storage.scratch import new_folder
from personaplex.core.storage.store import AT_A_TIME, fetch, pinned
from personaplex.core.storage.urls import Stored

KEPT_BYTES = 2 * 2**30
"""Of copies that nobody reads at the time."""

_LONGEST_SUFFIX = 20

Item = TypeVar("Item")


@dataclass(eq=False)
class _Copy:
    path: Path
    users: int = 0
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Spool:
    """The copies of a process; those that were read longest ago go first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._lock = threading.Lock()
        self._copies: OrderedDict[Stored, _Copy] = OrderedDict()
        self._versions: dict[str, str | None] = {}

    @contextmanager
    def held(self, stored: Stored) -> Iterator[Path]:
        """A copy of an object, there for as long as the context lasts; raises StorageError."""
        stored = pinned(stored)
        with self._lock:
            copy = self._copies.setdefault(stored, _Copy(self._folder / _file_name(stored)))
            copy.users += 1
        try:
            with copy.lock:
                if not copy.path.exists():
                    fetch(stored, copy.path)
                    copy.size = copy.path.stat().st_size
                    self._versions[stored.url] = stored.version
            yield copy.path
        finally:
            with self._lock:
                copy.users -= 1
                self._copies.move_to_end(stored)
                self._evict()

    def version(self, stored: Stored) -> str | None:
        """Which content of an object was fetched last, if its store gives a hash of it."""
        version = self._versions.get(stored.url)
        return version if version is not None and version.startswith("hash") else None

    def _evict(self) -> None:
        total = sum(copy.size for copy in self._copies.values())
        for stored, copy in list(self._copies.items()):
            if not copy.users and (total > self._limit or not copy.path.exists()):
                copy.path.unlink(missing_ok=True)
                total -= copy.size
                del self._copies[stored]


def _file_name(stored: Stored) -> str:
    """A short name of its own, with the suffix that some formats are told by."""
    digest = hashlib.sha256(f"{stored.url}\n{stored.version}".encode(errors="surrogatepass")).hexdigest()[:32]
    suffix = stored.path.suffix
    return digest + (suffix if len(suffix.encode(errors="surrogatepass")) <= _LONGEST_SUFFIX else "")


@cache
def _spool() -> Spool:
    return Spool(new_folder("spool"), KEPT_BYTES)


@contextmanager
def fetched(stored: Stored) -> Iterator[Path]:
    """A copy of an object, for as long as the context lasts; raises InputError.

    An InputError about the copy becomes one about the object.
    """
    path: Path | None = None
    try:
        with _spool().held(stored) as path:
            yield path
    except StorageError as error:
        raise InputError(error.what, error.mend) from error
    except InputError as error:
        raise InputError(error.what.replace(str(path), str(stored)), error.mend) from error


def ahead_of(items: Iterable[Item], stored: Callable[[Item], Stored | None]) -> Iterator[Item]:
    """The items in turn, while what is `stored` of those to come is fetched, several at a time."""
    coming = iter(items)
    ahead: deque[tuple[Item, Future[None] | None]] = deque()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for item in coming:
            place = stored(item)
            ahead.append((item, None if place is None else pool.submit(_try_to_fetch, place)))
            if len(ahead) > AT_A_TIME:
                yield _first(ahead)
        while ahead:
            yield _first(ahead)


def _first(ahead: deque[tuple[Item, Future[None] | None]]) -> Item:
    item, future = ahead.popleft()
    if future is not None:
        future.result()
    return item


def _try_to_fetch(stored: Stored) -> None:
    with suppress(StorageError), _spool().held(stored):  # told when it is read
        pass


def fetched_version(stored: Stored) -> str | None:
    """Which content of an object was fetched last in this process, if its store gives a hash of it."""
    return _spool().version(stored)


@cache
def _kept_folder() -> Path:
    return new_folder("kept")


def kept(stored: Stored) -> Path:
    """A copy of an object under its own name, which stays as long as the process; raises StorageError."""
    stored = pinned(stored)
    path = _kept_folder() / _file_name(stored) / stored.path.name
    if not path.exists():
        fetch(stored, path)
    return path
