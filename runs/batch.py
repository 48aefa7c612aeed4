"""Running a batch: load, make jobs, step through them, keep the ledger."""

import logging
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from personaplex.core.answers.leftovers import sweep
from personaplex.core.answers.outputs import Run, write
from personaplex.core.corpus.items import PassedOver
from personaplex.core.corpus.results import ResultRow, done_row
from personaplex.core.engine.batch import Batch, Live
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure, Response
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.runs.jobs import make_jobs
from personaplex.runs.ledger import Counts, Ledger
from personaplex.runs.models.located import LocatedModel, locate_model
from personaplex.runs.observer import Observer, Standing
from personaplex.runs.planning.places import Places
from personaplex.runs.planning.plan import locate_voices, plan_items
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import BatchRequest
from personaplex.runs.planning.todo import choose_items
from personaplex.runs.settings import Started, run_record, write_record
from personaplex.runs.sizing import engine_plan

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """How a batch went, what its walk passed over, and whether its observer stopped it."""

    counts: Counts
    passed_over: PassedOver
    stopped: bool


def run_batch(request: BatchRequest, observer: Observer) -> Outcome:
    """Run a batch; raises PersonaplexError where nothing can be run. Items that fail are counted, logged and told."""
    with request.source.told():
        return _run_batch(request, observer)


def _run_batch(request: BatchRequest, observer: Observer) -> Outcome:
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
    stopped = False
    if todo.run and not ledger.counts.has_failed_over(request.max_failures):
        stopped = _run_items(todo.run, voices, request, located, places, ledger, observer, planned.passed_over)
    else:
        ledger.counts.not_run = len(todo.run)
        ledger.flush()
    ledger.counts.seconds = round(time.perf_counter() - begun, 3)
    return Outcome(ledger.counts, planned.passed_over, stopped)


def _run_items(
    items: Sequence[PlannedItem],
    voices: Mapping[str, Path],
    request: BatchRequest,
    located: LocatedModel,
    places: Places,
    ledger: Ledger,
    observer: Observer,
    passed_over: PassedOver,
) -> bool:
    """Run items and return whether the observer stopped them; their outcomes are written, however the run ends."""
    before = ledger.counts.failed

    def failed(item: PlannedItem, error: PersonaplexError) -> bool:
        ledger.failed(item.item, error)
        return ledger.counts.has_failed_over(request.max_failures)

    model = located.load()
    jobs = make_jobs(items, voices, request, model, places.refuse_foreign, failed)
    plan = engine_plan(jobs, request, model, observer)
    run = Run.of(model, plan.slots, plan.sampling, plan.align, request.outputs)
    started = Started(datetime.now(UTC).isoformat(timespec="seconds"), request.command, os.getcwd(), request.shard)
    write_record(request.source.output, run_record(request, run, passed_over, started))
    if request.source.outlet is not None:
        request.source.outlet.send_run()
    delivery = _Delivery({item.item.id: item for item in items}, run, started.started, places, ledger)

    def watch(calls: Sequence[Live]) -> None:
        observer.ticked(standings(calls))
        if observer.stop.is_set():
            batch.stop()

    batch = Batch(model, plan, delivery.deliver, watch)
    with observer.running(sum(live_calls(job.frames, plan.align) for job in jobs)):
        observer.failed(ledger.counts.failed)
        try:
            for outcome in batch.run(jobs):
                if isinstance(outcome, Failure):
                    too_many = failed(delivery.items[outcome.job.id], outcome.error)
                    observer.failed(ledger.counts.failed)
                    if too_many or observer.stop.is_set():
                        batch.stop()
                delivery.record()
        finally:
            delivery.record()  # those too that were on their way when the batch broke off
            ledger.flush()
    ledger.counts.not_run = len(items) - ledger.counts.done - (ledger.counts.failed - before)
    return observer.stop.is_set()


def standings(calls: Sequence[Live]) -> list[Standing]:
    """How far the calls in the slots are."""
    return [Standing(call.job.id, len(call.frames), call.total) for call in calls]


class _Delivery:
    """Responses on their way from the worker that writes their files to the ledger."""

    def __init__(self, items: dict[str, PlannedItem], run: Run, started: str, places: Places, ledger: Ledger) -> None:
        self.items = items
        self._run = run
        self._started = started
        self._places = places
        self._ledger = ledger
        self._written: deque[tuple[ResultRow, float]] = deque()

    def deliver(self, response: Response) -> None:
        """Write a response's files, on whatever thread; raises InputError."""
        item = self.items[response.job.id]
        source, seconds = item.item.source, sum(response.seconds.values())
        document = self._places.written(
            item, lambda: write(response, self._run, item.paths, source, self._started, seconds, clears=True)
        )
        self._written.append((done_row(item.item, document), response.info.duration))

    def record(self) -> None:
        """Put what was written into the ledger."""
        while self._written:
            self._ledger.done(*self._written.popleft())
