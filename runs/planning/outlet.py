"""The outputs of a batch that go to a store: written to a folder here that stands in for it, then put there whole.

An answer's transcript is put last. Before anything of it, it is put as a marker under a hidden name: so a run that
finds files without a transcript, which a killed run left, knows whose they are (see `core.answers.leftovers`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

from personaplex.core.answers.leftovers import item_files
from personaplex.core.answers.outputs import OutputPaths
from personaplex.core.answers.ownership import made_files, made_with
from personaplex.core.corpus.results import RESULTS, RUN, ResultRow, merge_results, read_results
from personaplex.core.errors import PersonaplexError, StorageError
from personaplex.core.files import NOBODY, is_temporary, read_object, stale_parts, temporary
from personaplex.core.storage.stand_in import StandIn
from personaplex.core.storage.store import MissingError, check_writable, fetch, listed, put, remove
from personaplex.core.storage.urls import Stored

SHARES = "results.shards"
"""The folder in which each of several shards has its own rows, which no other writes."""

_MOST_ROUNDS = 5

Made = TypeVar("Made")


class Outlet:
    """Where the outputs of a shard (i, n) go from `folder`; raises StorageError where nothing can be written."""

    def __init__(self, root: Stored, shard: tuple[int, int]) -> None:
        check_writable(root)
        self._stand_in = StandIn(root)
        self._shard = shard
        self._parts: dict[Path, list[Path]] = {}

    @property
    def root(self) -> Stored:
        """The folder in the store."""
        return self._stand_in.root

    @property
    def folder(self) -> Path:
        """The folder here."""
        return self._stand_in.folder

    def stored(self, path: Path) -> Stored:
        """The object that a file here goes to."""
        return self._stand_in.stored(path)

    def told(self) -> AbstractContextManager[None]:
        """Make errors about files here such about their objects."""
        return self._stand_in.told()

    def renamed(self, error: PersonaplexError) -> PersonaplexError:
        """An error about files here, as one about their objects."""
        return self._stand_in.renamed(error)

    def open(self, items: Sequence[OutputPaths]) -> None:
        """Look what is there: names, and what is in transcripts, in results and in what tells of killed runs."""
        stand_in = self._stand_in
        stand_in.list()
        markers = [path for path in stand_in.objects if is_temporary(path)]
        own = [self.folder / RESULTS, self.folder / RUN]
        stand_in.fetch([*own, *markers, *(item.json for item in items)])
        named = (made_files(read_object(marker), marker.parent) for marker in markers)
        stand_in.fetch([path for files in named for path in files])
        self._parts = stale_parts(path for item in items for path in item_files(item))

    def unseen(self, files: Iterable[Path]) -> set[Path]:
        """Those of some files whose content isn't here, so that nothing can be said of it."""
        objects = self._stand_in.objects
        return {path for path in files if path in objects and path.exists() and not path.stat().st_size}

    def written(self, paths: OutputPaths, outputs: Sequence[Path], write: Callable[[], Made]) -> Made:
        """What `write` returns, which writes an item's `outputs`, the transcript last; they are put into the store.

        Nothing of them stays here. Raises what `write` does, and StorageError.
        """
        files = dict.fromkeys([*item_files(paths), *made_with(paths.json)])
        older = paths.json.read_bytes() if paths.json.exists() else b""
        there = [path for path in files if path in self._stand_in.objects and path.exists()]
        try:
            self._stand_in.fetch(there)  # by which `write` sees whether they are the item's own
            made = write()
            self._put(paths.json, outputs, older, files)
        finally:
            for path in files:
                path.unlink(missing_ok=True)
        return made

    def _put(self, transcript: Path, outputs: Sequence[Path], older: bytes, files: Iterable[Path]) -> None:
        """Put an answer's files; a run that is killed at any step leaves what another can tell from a stranger's."""
        objects = self._stand_in.objects
        gone = [path for path in files if path in objects and not path.exists()]
        parts = [part for path in files for part in self._parts.get(path, ())]
        markers = [self._mark(transcript, content) for content in (older, transcript.read_bytes()) if content]
        if transcript in objects:
            remove(self.stored(transcript))
        for path in outputs:
            put(path, self.stored(path))
        for path in gone:
            remove(self.stored(path))
        with suppress(StorageError):  # the answer is whole, and markers do no harm
            for marker in (*markers, *map(self.stored, parts)):
                remove(marker)

    def _mark(self, transcript: Path, content: bytes) -> Stored:
        marker = temporary(transcript, NOBODY)
        marker.write_bytes(content)
        try:
            put(marker, self.stored(marker))
        finally:
            marker.unlink()
        return self.stored(marker)

    def send_run(self) -> None:
        """Put `run.json`; raises StorageError."""
        self._send(self.folder / RUN)

    def send_results(self, order: Sequence[str], rows: Mapping[str, ResultRow]) -> None:
        """Merge this run's rows into the store's results; raises StorageError.

        Objects can't be appended to or locked. So each of several shards puts its own rows into an object of its own
        first, and then all rows into the results, until no other shard has changed its own meanwhile: whoever is last
        has seen all of them.
        """
        index, count = self._shard
        own = f"{index}-of-{count}/{RESULTS}"
        if count > 1:
            folder = (self.folder / SHARES / own).parent
            merge_results(folder, order, rows)
            self._send(folder / RESULTS)
        for _ in range(_MOST_ROUNDS):
            shares = listed(self.root / SHARES)
            others = {name: entry for name, entry in shares.items() if name != own and f"-of-{count}/" in name}
            self._merge(order, rows, others)
            if count == 1:  # all rows are here
                for name in shares:
                    remove(self.root / SHARES / name)
                return
            if listed(self.root / SHARES) == shares:
                return

    def _merge(self, order: Sequence[str], rows: Mapping[str, ResultRow], others: Iterable[str]) -> None:
        with suppress(MissingError):
            fetch(self.root / RESULTS, self.folder / RESULTS)
        for name in others:
            path = self.folder / SHARES / name
            with suppress(MissingError):  # of a shard whose rows a run of all of them has taken up
                fetch(self.root / SHARES / name, path)
                merge_results(self.folder, order, read_results(path.parent))
        merge_results(self.folder, order, rows)
        self._send(self.folder / RESULTS)

    def _send(self, path: Path) -> None:
        put(path, self.stored(path))
