"""The account of a run on several workers: rows into the ledger, progress to the observer, devices to `run.json`."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from personaplex.core.answers.transcript import EngineInfo, ModelInfo
from personaplex.core.errors import ModelError, PersonaplexError
from personaplex.runs.devices.kinds import Kinds
from personaplex.runs.devices.messages import Ready
from personaplex.runs.ledger import Ledger, Written
from personaplex.runs.observer import Observer, Standing
from personaplex.runs.settings import Worker
from personaplex.runs.tail import Tail

log = logging.getLogger(__name__)


@dataclass
class Books:
    """See `Account`. `refuse` puts a call that failed into the ledger, `record` writes `run.json`."""

    ledger: Ledger
    observer: Observer
    kinds: Kinds
    tail: Tail
    most_failures: int | None
    refuse: Callable[[Any, PersonaplexError], None]
    record: Callable[[ModelInfo, EngineInfo, Sequence[Worker]], None]

    def __post_init__(self) -> None:
        self._model: ModelInfo | None = None
        self._engine: EngineInfo | None = None
        self._workers: dict[str, Worker] = {}

    def ready(self, name: str, ready: Ready) -> None:
        """Check a worker against those before it, and record it; raises ModelError for other weights or devices."""
        if self._model is None or self._engine is None:
            self._model, self._engine = ready.model, ready.engine
            self.observer.sized(ready.sizing)
        elif ready.model != self._model:
            what = f"{name} on {ready.node} has other weights or another tokenizer than the first worker"
            raise ModelError(what, "give every machine the same model, by --revision if it is a hub's")
        self.kinds.add(f"{name} on {ready.node}", ready.engine.device_kind)
        self.tail.opened(ready.slots)
        self._workers[name] = Worker(name, ready.node, ready.engine.device_kind, ready.slots)
        self.record(self._model, self._engine, list(self._workers.values()))

    def ticked(self, calls: Sequence[Standing]) -> None:
        """Show how far calls are."""
        self.observer.ticked(calls)
        self.tail.ticked(calls)

    def done(self, written: Written) -> None:
        """Put a row into the ledger."""
        self.tail.lived(written.live)
        self.ledger.done(written)

    def failed(self, load: Any, error: PersonaplexError) -> None:
        """Put a failure into the ledger."""
        self.refuse(load, error)
        self.observer.failed(self.ledger.counts.failed)

    def lost(self, slots: int) -> None:
        """A worker's slots are no more."""
        self.tail.opened(-slots)

    @property
    def is_over(self) -> bool:
        """Whether it was stopped, or too many calls have failed."""
        return self.observer.stop.is_set() or self.ledger.counts.has_failed_over(self.most_failures)
