"""The rows of a running batch, written to `results.jsonl` now and then and at the end."""

import time
from pathlib import Path

from personaplex.cli.batch_report import Counts
from personaplex.cli.console import log
from personaplex.cli.planning import PlannedItem
from personaplex.core.corpus.items import Item, Refused
from personaplex.core.corpus.results import ResultRow, failed_row, merge_results
from personaplex.core.errors import PersonaplexError
from personaplex.core.faults import shown

FLUSH_SECONDS = 20.0


class Ledger:
    """Outcomes so far, counted; `order` are the ids of the whole source, in which rows are written."""

    def __init__(self, folder: Path, order: list[str], counts: Counts) -> None:
        self.counts = counts
        self._folder = folder
        self._order = order
        self._rows: dict[str, ResultRow] = {}
        self._flushed = time.monotonic()

    def skipped(self, row: ResultRow) -> None:
        """An item that was done before."""
        self.counts.skipped += 1
        self.counts.flagged += bool(row["flags"])
        self._rows[row["id"]] = row

    def done(self, planned: PlannedItem, row: ResultRow, duration: float) -> None:
        """An item that is done now, of `duration` seconds."""
        self.counts.done += 1
        self.counts.audio_seconds = round(self.counts.audio_seconds + duration, 3)
        for warning in row["warnings"]:
            log.warning("%s", shown(f"{planned.item.id}: {warning}"))
        self._add(row)

    def failed(self, item: Item, error: PersonaplexError) -> None:
        """An item that can't be run."""
        self.refused(Refused.of(item, error))

    def refused(self, refused: Refused) -> None:
        """What the plan says can't be run."""
        self.counts.failed += 1
        log.error("%s", shown(f"{refused.id}: {refused.error.what}"))
        self._add(failed_row(refused))

    def _add(self, row: ResultRow) -> None:
        self._rows[row["id"]] = row
        self.counts.flagged += bool(row.get("flags"))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Merge the rows into the folder's file; raises InputError."""
        merge_results(self._folder, self._order, self._rows)
        self._flushed = time.monotonic()
