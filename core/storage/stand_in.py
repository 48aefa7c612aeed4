"""A folder here that stands in for one in a store.

Every object is an empty file of its name, until its content is fetched: so what looks for names, or reads some files,
needs to know of folders only, and a corpus is never here as a whole.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from personaplex.core.errors import PersonaplexError
from personaplex.core.storage.scratch import new_folder
from personaplex.core.storage.store import AT_A_TIME, Entry, MissingError, fetch, listed
from personaplex.core.storage.urls import Stored


class StandIn:
    """A folder that stands in for `root`; `objects` are its files, and `odd` are names that no file here can have."""

    def __init__(self, root: Stored) -> None:
        self.root = root
        self.folder = new_folder("folder")
        self.objects: dict[Path, Entry] = {}
        self.odd: list[str] = []

    def list(self, leave_out: str | None = None) -> None:
        """Look what is there, but for what lies below the folder `leave_out`; raises StorageError."""
        for name, entry in sorted(listed(self.root).items()):
            if leave_out is not None and name.startswith(f"{leave_out}/"):
                continue
            path = self.folder / name
            parts = name.split("/")
            if parts[-1] == "" and not entry.size:  # as consoles mark folders
                continue
            try:
                if {"", ".", ".."} & set(parts):
                    raise OSError(f"{name} is no path")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(exist_ok=False)
            except (OSError, ValueError):
                self.odd.append(name)
            else:
                self.objects[path] = entry

    def stored(self, path: Path) -> Stored:
        """The object that a file stands in for."""
        entry = self.objects.get(path)
        name = path.relative_to(self.folder).as_posix()
        return Stored((self.root / name).url, None if entry is None else entry.version)

    def fetch(self, paths: Iterable[Path]) -> None:
        """Put the content of objects into their files; those that are gone by now lose them. Raises StorageError."""
        wanted = [path for path in dict.fromkeys(paths) if path in self.objects]
        if not wanted:
            return
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for _ in pool.map(self._fetch, wanted):
                pass

    def _fetch(self, path: Path) -> None:
        try:
            fetch(self.stored(path), path)
        except MissingError:  # another run has removed it
            path.unlink(missing_ok=True)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Make errors about files here such about their objects."""
        try:
            yield
        except PersonaplexError as error:
            raise self.renamed(error) from error

    def renamed(self, error: PersonaplexError) -> PersonaplexError:
        """An error about files here, as one about their objects."""
        here, there = str(self.folder), str(self.root).rstrip("/")
        return type(error)(error.what.replace(here, there), error.mend.replace(here, there))
