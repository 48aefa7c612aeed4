"""Running a batch: load, make jobs, step through them, keep the ledger."""

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from personaplex.core.answers.leftovers import sweep
from personaplex.core.answers.outputs import Run, write
from personaplex.core.corpus.results import ResultRow, done_row
from personaplex.core.engine.batch import Batch, Live, Plan, positions
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure, Job, Response
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.core.machine.memory import allocatable_slots, cache_bytes, choose_slots, free_bytes
from personaplex.core.weights.model import Model
from personaplex.runs.jobs import make_jobs, voice_paths
from personaplex.runs.ledger import Counts, Ledger
from personaplex.runs.models.located import LocatedModel, locate_model
from personaplex.runs.observer import Observer, Sizing, Standing
from personaplex.runs.places import Places
from personaplex.runs.plan import PlannedItem, plan_items
from personaplex.runs.request import BatchRequest
from personaplex.runs.settings import Started, run_record, write_record
from personaplex.runs.todo import choose_items


@dataclass(frozen=True)
class Outcome:
    """How a batch went, and whether its observer stopped it."""

    counts: Counts
    stopped: bool


def run_batch(request: BatchRequest, observer: Observer) -> Outcome:
    """Run a batch; raises PersonaplexError where nothing can be run. Items that fail are counted, logged and told."""
    begun = time.perf_counter()
    planned = plan_items(request.source, request.outputs)
    output = request.source.output
    places = Places(planned, request)
    make_folder(output)
    places.check_names()
    located = locate_model(request.model)
    todo = choose_items(planned, request, located)
    sweep(item.paths for item in todo.all)
    ledger = Ledger(output, [item.item.id for item in planned], Counts(items=len(todo.run) + len(todo.done)))
    for _, row in todo.done:
        ledger.skipped(row)
    stopped = False
    if todo.run:
        stopped = _run_items(todo.run, request, located, places, ledger, observer)
    else:
        ledger.flush()
    ledger.counts.seconds = round(time.perf_counter() - begun, 3)
    return Outcome(ledger.counts, stopped)


def _run_items(
    items: Sequence[PlannedItem],
    request: BatchRequest,
    located: LocatedModel,
    places: Places,
    ledger: Ledger,
    observer: Observer,
) -> bool:
    """Run items and return whether the observer stopped them; their outcomes are written, however the run ends."""

    def failed(item: PlannedItem, error: PersonaplexError) -> bool:
        ledger.failed(item.item, error)
        return request.max_failures is not None and ledger.counts.failed > request.max_failures

    voices = voice_paths(items, request, located)
    model = located.load()
    jobs = make_jobs(items, voices, request, model, places, failed)
    slots = _sized(jobs, request, model, observer)
    plan = Plan(slots, request.sampling, request.align.value, request.graphs)
    run = Run.of(model, plan.slots, plan.sampling, plan.align, request.outputs)
    started = Started(datetime.now(UTC).isoformat(timespec="seconds"), request.command, os.getcwd(), request.shard)
    write_record(request.source.output, run_record(request, run, started))
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
    ledger.counts.not_run = len(items) - ledger.counts.done - ledger.counts.failed
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
        self._written: deque[tuple[PlannedItem, ResultRow, float]] = deque()

    def deliver(self, response: Response) -> None:
        """Write a response's files, on whatever thread; raises InputError."""
        item = self.items[response.job.id]
        make_folder(item.paths.wav.parent)
        self._places.refuse_foreign(item)
        seconds = sum(response.seconds.values())
        document = write(response, self._run, item.paths, item.item.source, self._started, seconds, clears=True)
        self._written.append((item, done_row(item.item, document), response.info.duration))

    def record(self) -> None:
        """Put what was written into the ledger."""
        while self._written:
            self._ledger.done(*self._written.popleft())


def _sized(jobs: Sequence[Job], request: BatchRequest, model: Model, observer: Observer) -> int:
    """How many slots a run takes; the observer is told."""
    if not jobs:
        return 1
    longest = positions(jobs, request.align.value)
    slot = cache_bytes(model.config, 1, longest, model.lm.dtype.itemsize)
    slots = choose_slots(request.slots, len(jobs), slot, model.device)
    if request.slots is None:
        slots = allocatable_slots(model.lm, slots, longest)
    observer.sized(Sizing(slots, slot, longest, free_bytes(model.device)))
    return slots
