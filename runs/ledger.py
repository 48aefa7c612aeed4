"""The rows of a running batch, written to `results.jsonl` now and then and at the end."""

import logging
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from personaplex.core.corpus.items import Item, Refused
from personaplex.core.corpus.results import ResultRow, failed_row, merge_results
from personaplex.core.errors import PersonaplexError
from personaplex.core.faults import shown
from personaplex.runs.planning.outlet import Outlet

FLUSH_SECONDS = 20.0

log = logging.getLogger(__name__)


class Written(NamedTuple):
    """A call whose files are written: its row, its seconds of sound, and those that it spent in its slot."""

    row: ResultRow
    duration: float
    live: float


@dataclass
class Counts:
    """How a batch went. `flagged` items hold a loop or dead air; seconds are of audio, and of the run."""

    items: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    not_run: int = 0
    flagged: int = 0
    audio_seconds: float = 0.0
    seconds: float = 0.0

    def has_failed_over(self, most: int | None) -> bool:
        """Whether more than `most` have failed; for None any number may."""
        return most is not None and self.failed > most

    @property
    def times_real_time(self) -> float:
        """Seconds of calls made in a second."""
        return self.audio_seconds / self.seconds if self.seconds else 0.0


class Ledger:
    """Outcomes so far, counted; `order` are the ids of the whole source, in which rows are written."""

    def __init__(self, folder: Path, order: list[str], counts: Counts, outlet: Outlet | None = None) -> None:
        self.counts = counts
        self._folder = folder
        self._outlet = outlet
        self._order = order
        self._rows: dict[str, ResultRow] = {}
        self._flushed = time.monotonic()

    def skipped(self, row: ResultRow) -> None:
        """An item that was done before."""
        self.counts.skipped += 1
        self.counts.flagged += bool(row["flags"])
        self._rows[row["id"]] = row

    def done(self, written: Written) -> None:
        """What is done now."""
        row = written.row
        self.counts.done += 1
        self.counts.audio_seconds = round(self.counts.audio_seconds + written.duration, 3)
        self._add(row)
        for warning in row["warnings"]:
            log.warning("%s", shown(f"{row['id']}: {warning}"))

    def failed(self, item: Item, error: PersonaplexError) -> None:
        """An item that can't be run."""
        self.refused(Refused.of(item, error))

    def refused(self, refused: Refused) -> None:
        """What the plan says can't be run."""
        if self._outlet is not None:
            refused = replace(refused, error=self._outlet.renamed(refused.error))
        self.counts.failed += 1
        self._add(failed_row(refused))
        log.error("%s", shown(f"{refused.id}: {refused.error.what}"))

    def _add(self, row: ResultRow) -> None:
        self._rows[row["id"]] = row
        self.counts.flagged += bool(row.get("flags"))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._flushed = time.monotonic()
            try:
                self.flush()
            except PersonaplexError as error:  # the calls go on: it may be over by then
                log.warning("%s; tried again in %.0f s", shown(error.what), FLUSH_SECONDS)

    def flags(self) -> dict[str, int]:
        """How many rows have each kind of flag."""
        return dict(sorted(Counter(kind for row in self._rows.values() for kind in row.get("flags", ())).items()))

    def flush(self) -> None:
        """Merge the rows, if any, into the folder's file; raises InputError, and StorageError for an outlet."""
        if not self._rows:
            return
        if self._outlet is None:
            merge_results(self._folder, self._order, self._rows)
        else:
            self._outlet.send_results(self._order, self._rows)
        self._flushed = time.monotonic()
