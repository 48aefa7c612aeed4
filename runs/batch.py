"""Running a batch: load, make jobs, step through them, keep the ledger."""

import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from personaplex.core.answers.leftovers import sweep
from personaplex.core.answers.outputs import Run
from personaplex.core.answers.transcript import EngineInfo, ModelInfo
from personaplex.core.corpus.items import PassedOver
from personaplex.core.engine.batch import Batch, Live
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.core.machine.device_kind import device_kind
from personaplex.runs.delivery import Delivery, standings
from personaplex.runs.devices.account import Books
from personaplex.runs.devices.batch import run_on_devices
from personaplex.runs.devices.chosen import Device
from personaplex.runs.devices.kinds import Kinds
from personaplex.runs.jobs import make_jobs
from personaplex.runs.ledger import Counts, Ledger
from personaplex.runs.models.located import LocatedModel, locate_model
from personaplex.runs.observer import Observer
from personaplex.runs.planning.places import Places
from personaplex.runs.planning.plan import locate_voices, plan_items
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import BatchRequest
from personaplex.runs.planning.todo import choose_items
from personaplex.runs.settings import Started, Worker, run_record, write_record
from personaplex.runs.sizing import engine_plan
from personaplex.runs.tail import Tail, TailFigures

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """How a batch went, what its walk passed over, whether its observer stopped it, and how it ended."""

    counts: Counts
    passed_over: PassedOver
    stopped: bool
    tail: TailFigures | None


def run_batch(
    request: BatchRequest, observer: Observer, devices: Sequence[Device] = (), same_device_kind: bool = False
) -> Outcome:
    """Run a batch here, or on each of `devices` in a process of its own; all calls on a `same_device_kind` if asked.

    Raises PersonaplexError where nothing can be run. Items that fail are counted, logged and told.
    """
    with request.source.told():
        return _run_batch(request, observer, devices, same_device_kind)


def _run_batch(request: BatchRequest, observer: Observer, devices: Sequence[Device], same_device_kind: bool) -> Outcome:
    begun = time.perf_counter()
    planned = plan_items(request.source, request.outputs)
    for warning in (*planned.warnings, *planned.passed_over.surprising()):
        log.warning("%s", warning)
    output = request.source.output
    places = Places(planned.items, request)
    make_folder(output)
    places.check_names()
    located = locate_model(request.model)
    source = request.source
    chosen = (source.voice, *source.product.voices)
    planned, voices = locate_voices(planned, source.voice_folder, chosen, located)
    todo = choose_items(planned, request, located)
    sweep(item.paths for item in todo.all)
    ledger = Ledger(output, planned.order, Counts(items=len(todo.all) + len(todo.refused)), source.outlet)
    for _, row in todo.done:
        ledger.skipped(row)
    for refused in todo.refused:
        ledger.refused(refused)
    stopped, tail = False, Tail()
    if todo.run and not ledger.counts.has_failed_over(request.max_failures):
        kinds = Kinds(same_device_kind, sorted({row["device"] for _, row in todo.done if row["device"]}))
        running = _Running(
            todo.run, voices, request, located, places, ledger, observer, planned.passed_over, kinds, tail
        )
        stopped = running.run(devices)
    else:
        ledger.counts.not_run = len(todo.run)
        ledger.flush()
    ledger.counts.seconds = round(time.perf_counter() - begun, 3)
    return Outcome(ledger.counts, planned.passed_over, stopped, tail.figures())


@dataclass
class _Running:
    """Items on their way from the plan through an engine, or several, to their files and the ledger."""

    items: Sequence[PlannedItem]
    voices: Mapping[str, Path]
    request: BatchRequest
    located: LocatedModel
    places: Places
    ledger: Ledger
    observer: Observer
    passed_over: PassedOver
    kinds: Kinds
    tail: Tail

    def run(self, devices: Sequence[Device]) -> bool:
        """Run them and return whether the observer stopped it; their outcomes are written, however the run ends."""
        before, counts = self.ledger.counts.failed, self.ledger.counts
        self._started = Started(
            datetime.now(UTC).isoformat(timespec="seconds"), self.request.command, os.getcwd(), self.request.shard
        )
        try:
            if devices:
                run_on_devices(
                    self.items, self.request, devices, self._books(), self.places.refuse_foreign, self._started.started
                )
            else:
                self._run_here()
        finally:
            self.ledger.flush()
        counts.not_run = len(self.items) - counts.done - (counts.failed - before)
        return self.observer.stop.is_set()

    def _books(self) -> Books:
        return Books(
            self.ledger, self.observer, self.kinds, self.tail, self.request.max_failures, self._refused, self._record
        )

    def _refused(self, item: PlannedItem, error: PersonaplexError) -> None:
        self.ledger.failed(item.item, error)

    def _record(self, model: ModelInfo, engine: EngineInfo, workers: Sequence[Worker]) -> None:
        started = replace(self._started, devices=tuple(workers))
        record = run_record(self.request, model, engine, self.passed_over, started)
        write_record(self.request.source.output, record)
        if self.request.source.outlet is not None:
            self.request.source.outlet.send_run()

    def _failed(self, item: PlannedItem, error: PersonaplexError) -> bool:
        self._refused(item, error)
        return self.ledger.counts.has_failed_over(self.request.max_failures)

    def _run_here(self) -> None:
        request, observer = self.request, self.observer
        model = self.located.load()
        self.kinds.add(str(model.device), device_kind(model.device))
        jobs = make_jobs(self.items, self.voices, request, model, self.places.refuse_foreign, self._failed)
        plan = engine_plan(jobs, request, model, observer)
        self.tail.opened(plan.slots)
        run = Run.of(model, plan.slots, plan.sampling, plan.align, request.outputs)
        worker = Worker(str(model.device), platform.node(), run.engine.device_kind, plan.slots)
        self._record(run.model, run.engine, [worker])
        delivery = Delivery(run, self._started.started, self.places)
        delivery.items.update({item.item.id: item for item in self.items})

        def watch(calls: Sequence[Live]) -> None:
            standing = standings(calls)
            observer.ticked(standing)
            self.tail.ticked(standing)
            if observer.stop.is_set():
                batch.stop()

        def record() -> None:
            for written in delivery.written():
                self.tail.lived(written.live)
                self.ledger.done(written)

        batch = Batch(model, plan, delivery.deliver, watch)
        with observer.running(sum(live_calls(job.frames, plan.align) for job in jobs)):
            observer.failed(self.ledger.counts.failed)
            try:
                for outcome in batch.run(jobs):
                    if isinstance(outcome, Failure):
                        too_many = self._failed(delivery.items[outcome.job.id], outcome.error)
                        observer.failed(self.ledger.counts.failed)
                        if too_many or observer.stop.is_set():
                            batch.stop()
                    record()
            finally:
                record()  # those too that were on their way when the batch broke off
