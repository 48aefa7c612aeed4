"""Tar archives in numbered shards, the same bytes on every run."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

SHARD_CALLS = 500
"""Calls in a shard: some 250 MB of both sides, if they last 15 s."""


class Shards:
    """Archives `<folder>/<name>`, in which `%06d` is a shard's number; an empty one if nothing is added."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._calls = 0
        self._tar: tarfile.TarFile | None = None

    @property
    def shard(self) -> int:
        """The number of the shard that the next call goes into."""
        return self._calls // SHARD_CALLS

    def add(self, members: Mapping[str, bytes]) -> None:
        """Add a call's members, by name."""
        if self._calls % SHARD_CALLS == 0:
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._tar = tarfile.open(self._folder / (self._name % self.shard), "w")  # noqa: SIM115 - closed by close
        if self._tar is not None:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                self._tar.addfile(entry, io.BytesIO(content))
        self._calls += 1

    def close(self) -> None:
        """Close the archive that is open."""
        if self._tar is not None:
            self._tar.close()
            self._tar = None
