"""What a source holds: items to run, and what can't be run of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.core.audio.sound import Sound
from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.walking import PassedOver
from personaplex.core.errors import PersonaplexError, UsageError


@dataclass(frozen=True)
class Item:
    """One call of a run.

    `source` is its input as the user wrote it, `where` says which row or file it came from, `place` is its place in
    the source, and the row's paths are relative to `folder`. `voice` and `seed` are chosen by the run and go before
    the row's. A `sound` in memory takes the place of the file at `path`.
    """

    id: str
    path: Path
    source: str
    where: str
    folder: Path
    row: Row = field(repr=False)
    voice: str | None = None
    seed: int | None = None
    place: int = 0
    sound: Sound | None = None

    @property
    def audio(self) -> Path | Sound:
        """What is read."""
        return self.path if self.sound is None else self.sound


@dataclass(frozen=True)
class Refused:
    """What the source holds and can't be run: it fails alone, and is told of by `error`.

    `id` and `source` are as an item's; a row that names neither is called by its number, which `row` then holds.
    `own` are the keys to pass through.
    """

    id: str
    place: int
    source: str | None
    own: Mapping[str, Any]
    error: PersonaplexError
    row: int | None = None

    @classmethod
    def of(cls, item: Item, error: PersonaplexError) -> "Refused":
        """An item that can't be run after all."""
        asked = {} if item.row.asked is None else {"expect": item.row.asked}
        return cls(item.id, item.place, item.source, item.row.passed_through | asked, error)


@dataclass(frozen=True)
class Source:
    """What a source holds: items, what can't be run of it, what was passed over in a folder, and what to warn of."""

    items: list[Item] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    passed_over: PassedOver = field(default_factory=PassedOver)
    warnings: list[str] = field(default_factory=list)

    def whole(self) -> list[Item]:
        """The items of a source in which nothing may be wrong; raises UsageError for the first thing that is."""
        if self.refused:
            error = self.refused[0].error
            raise UsageError(error.what, error.mend)
        return self.items
