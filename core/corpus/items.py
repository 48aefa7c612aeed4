"""What a source holds: items to run, what can't be run of it, and what was passed over."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.core.audio.reading import Audio
from personaplex.core.audio.sound import Sound
from personaplex.core.corpus.manifest import Row
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.faults import shown
from personaplex.core.storage.urls import Stored

_COMPANIONS = frozenset(
    f".{name}"
    for name in (
        *("txt", "md", "json", "jsonl", "csv", "tsv", "xml", "yaml", "yml", "toml", "ini", "log", "html", "pdf"),
        *("srt", "vtt", "ctm", "stm", "rttm", "lab", "textgrid", "eaf", "trs", "png", "jpg", "jpeg", "svg"),
        *("xls", "xlsx", "doc", "docx", "md5", "sha256", "py", "sh", "pt", "npy", "npz", "safetensors"),
    )
)
_MOST_NAMED = 8


@dataclass(frozen=True)
class Item:
    """One call of a run.

    `source` is its input as the user wrote it, `where` says which row or file it came from, `place` is its place in
    the source, and the row's paths are relative to `folder`. `voice` and `seed` are chosen by the run and go before
    the row's. A `sound` in memory, or the object that is `stored` elsewhere, takes the place of the file at `path`.
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
    stored: Stored | None = None

    @property
    def audio(self) -> Audio:
        """What is read."""
        return self.sound or self.stored or self.path


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
class PassedOver:
    """What a walk leaves out, but for hidden files: files by suffix, folders that are links, and what runs have left.

    `runs` are folders that hold a batch's `run.json`, `answers` counts answers that lie elsewhere.
    """

    files: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """What was passed over, a line each kind; what may be recordings first."""
        told = [
            _counted(self.likely, "file", "files"),
            _counted(Counter(self.links), "folder that is a link", "folders that are links"),
            _counted(Counter(self.runs), "folder of an earlier run", "folders of earlier runs"),
            _counted(Counter(self.answers), "answer of an earlier run", "answers of earlier runs"),
            _counted(self.files - self.likely, "file that is no recording", "files that are no recordings"),
        ]
        return [line for line in told if line]

    def surprising(self) -> list[str]:
        """The lines but for files that are no recordings, which lie beside them everywhere."""
        return PassedOver(self.likely, self.links, self.runs, self.answers).lines()

    @property
    def likely(self) -> Counter[str]:
        """The files that may be recordings: all but those of the kinds that lie beside them."""
        return Counter({suffix: count for suffix, count in self.files.items() if suffix not in _COMPANIONS})

    def document(self) -> dict[str, Any]:
        """The same for `run.json`."""
        return {
            "files": dict(sorted(self.files.items())),
            "links": sorted(self.links),
            "runs": sorted(self.runs),
            "answers": sorted(self.answers),
        }


def _counted(names: Counter[str], one: str, several: str) -> str:
    count = names.total()
    if not count:
        return ""
    first = sorted(names, key=lambda name: (-names[name], name))
    more = f" and {len(first) - _MOST_NAMED} more" if len(first) > _MOST_NAMED else ""
    named = ", ".join(shown(name) or "no suffix" for name in first[:_MOST_NAMED])
    return f"{count:,} {one if count == 1 else several} passed over: {named}{more}"


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
