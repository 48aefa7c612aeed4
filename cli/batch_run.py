"""Running a batch: load, make jobs, step through them, keep the ledger."""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from personaplex.cli.batch import BatchRequest
from personaplex.cli.batch_report import BatchPlan, Counts, Left, show_plan, show_summary
from personaplex.cli.checks import refuse_long
from personaplex.cli.console import log, notice
from personaplex.cli.known import known_model
from personaplex.cli.ledger import Ledger
from personaplex.cli.loading import LocatedModel, locate_model, pick_device
from personaplex.cli.options import LongAudio
from personaplex.cli.planning import Planned, PlannedItem, locate_voices, plan_items
from personaplex.cli.progress import CallProgress
from personaplex.cli.todo import choose_items
from personaplex.core.answers.leftovers import discard, sweep
from personaplex.core.answers.outputs import Run, write
from personaplex.core.audio import reading
from personaplex.core.corpus.results import ResultRow, done_row, write_run
from personaplex.core.corpus.walking import PassedOver
from personaplex.core.engine.batch import Batch, Plan, positions
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure, Job, NamedVoice, Prompt, Response
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.core.machine.memory import cache_bytes, default_slots, free_bytes, model_size
from personaplex.core.weights.model import Model
from personaplex.voices.loading import load_voice

INTERRUPTED = 128 + signal.SIGINT
PROMPT_ALLOWANCE = 256  # positions that a dry run counts for a prompt, whose length it doesn't know


def run_batch(request: BatchRequest) -> int:
    """Run a batch, tell how it went and return its exit code; raises PersonaplexError where nothing can be run."""
    begun = time.perf_counter()
    planned = _told_plan(request)
    if request.dry_run:
        _dry_run(planned, request)
        return 0
    code, counts = _execute(planned, request, begun)
    show_summary(counts, planned.passed_over, str(request.source.output), request.as_json)
    return code


def execute(request: BatchRequest) -> int:
    """Run a batch and return its exit code; raises PersonaplexError where nothing can be run."""
    code, _ = _execute(_told_plan(request), request, time.perf_counter())
    return code


def _told_plan(request: BatchRequest) -> Planned:
    """The plan, with a warning of what the user may not know: keys and files that nothing is made of."""
    planned = plan_items(request.source, request.outputs)
    for warning in (*planned.warnings, *planned.passed_over.surprising()):
        log.warning("%s", warning)
    return planned


def _execute(planned: Planned, request: BatchRequest, begun: float) -> tuple[int, Counts]:
    output = request.source.output
    make_folder(output)
    located = locate_model(request.model)
    planned, voices = locate_voices(planned, request.source, located)
    todo = choose_items(planned, request, located)
    sweep(item.paths for item in todo.all)
    ledger = Ledger(output, planned.order, Counts(items=len(todo.all) + len(todo.refused)))
    for _, row in todo.done:
        ledger.skipped(row)
    for refused in todo.refused:
        ledger.refused(refused)
    code = 0
    if todo.run and not _too_many(ledger.counts, request.max_failures):
        code = _run_items(todo.run, request, located, voices, ledger, planned.passed_over)
    else:
        ledger.counts.not_run = len(todo.run)
        _tell_stopped(ledger.counts)
        ledger.flush()
    ledger.counts.seconds = round(time.perf_counter() - begun, 3)
    return code or (1 if ledger.counts.failed else 0), ledger.counts


def _dry_run(planned: Planned, request: BatchRequest) -> None:
    todo = choose_items(planned, request, None)
    frames, unreadable = [], []
    for item in todo.run:
        try:
            frames.append(_frames(item))
        except PersonaplexError as error:
            unreadable.append(error.what)
    known = known_model(request.model.name)
    config, width = known.config, known.width(request.model.dtype)
    device = pick_device(request.model.device)
    longest = max(frames, default=0)
    slot = cache_bytes(config, 1, longest + PROMPT_ALLOWANCE, width)
    slots = choose_slots(request.slots, len(frames), slot, device)
    plan = BatchPlan(
        items=len(todo.all) + len(todo.refused),
        skipped=len(todo.done),
        refused=len(todo.refused),
        unreadable=len(unreadable),
        to_run=len(frames),
        frames=sum(frames),
        longest_frames=longest,
        slots=slots,
        cache_bytes=slots * slot,
        weights_bytes=model_size(config, slots, longest, width).weights_bytes,
    )
    left = Left([one.error.what for one in todo.refused], unreadable, planned.passed_over)
    show_plan(plan, left, request.as_json)


def _frames(item: PlannedItem) -> int:
    row = item.item.row
    return reading.planned_frames(item.item.path, offset=row.offset, duration=row.duration)


def _run_items(
    items: Sequence[PlannedItem],
    request: BatchRequest,
    located: LocatedModel,
    voices: Mapping[str, Path],
    ledger: Ledger,
    passed_over: PassedOver,
) -> int:
    """Run items and return the exit code; once they run, their outcomes are written, however the run ends."""
    before = ledger.counts.failed
    model = located.load()
    jobs = _jobs(items, voices, request, model, ledger)
    by_id = {item.item.id: item for item in items}
    plan = Plan(_told_slots(jobs, request, model), request.sampling, request.align.value, request.graphs)
    run = Run.of(model, plan.slots, plan.sampling, plan.align, request.outputs)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    volatile = {"started": started, "command": sys.argv, "folder": os.getcwd(), "shard": list(request.shard)}
    settings = _settings(request, run) | {"passed_over": passed_over.document()}
    write_run(request.source.output, settings, volatile)

    delivered: deque[tuple[PlannedItem, ResultRow, float]] = deque()

    def deliver(response: Response) -> None:
        item = by_id[response.job.id]
        make_folder(item.paths.wav.parent)
        discard(item.paths)
        seconds = sum(response.seconds.values())
        document = write(response, run, item.paths, item.item.source, started, seconds)
        delivered.append((item, done_row(item.item, document), response.info.duration))

    def record_delivered() -> None:
        while delivered:
            ledger.done(*delivered.popleft())

    with CallProgress(request.progress, sum(live_calls(job.frames, plan.align) for job in jobs)) as progress:
        batch = Batch(model, plan, deliver, progress.update)
        with _stopping(batch.stop) as interrupted:
            progress.failed(ledger.counts.failed)
            try:
                for outcome in batch.run(jobs):
                    if isinstance(outcome, Failure):
                        ledger.failed(by_id[outcome.job.id].item, outcome.error)
                        progress.failed(ledger.counts.failed)
                    record_delivered()
                    if _too_many(ledger.counts, request.max_failures):
                        batch.stop()
            finally:
                record_delivered()  # those too that were on their way when the batch broke off
                ledger.flush()
    ledger.counts.not_run = len(items) - ledger.counts.done - (ledger.counts.failed - before)
    if interrupted:
        log.error("interrupted: %d items not run; run the same command again to go on", ledger.counts.not_run)
        return INTERRUPTED
    _tell_stopped(ledger.counts)
    return 0


def _tell_stopped(counts: Counts) -> None:
    if counts.not_run:
        log.error("stopped after %d failure%s", counts.failed, "s" if counts.failed > 1 else "")


def _too_many(counts: Counts, most: int | None) -> bool:
    return most is not None and counts.failed > most


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `stop` at the first Ctrl-C, which the list then holds; the second one interrupts at once."""
    seen: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _jobs(
    items: Sequence[PlannedItem],
    voices: Mapping[str, Path],
    request: BatchRequest,
    model: Model,
    ledger: Ledger,
) -> list[Job]:
    """A job for every item whose input and voice can be read; the others are failures. None after too many of them."""
    loaded: dict[str, NamedVoice | PersonaplexError] = {}
    jobs = []
    for item in items:
        if item.voice not in loaded:
            loaded[item.voice] = _voice(voices[item.voice], model)
        try:
            jobs.append(_job(item, loaded[item.voice], request, model))
        except PersonaplexError as error:
            ledger.failed(item.item, error)
            if _too_many(ledger.counts, request.max_failures):
                return []
    return jobs


def _voice(path: Path, model: Model) -> NamedVoice | PersonaplexError:
    try:
        return load_voice(path, model)
    except PersonaplexError as error:
        return error


def _job(item: PlannedItem, voice: NamedVoice | PersonaplexError, request: BatchRequest, model: Model) -> Job:
    row = item.item.row
    frames = _frames(item)
    if isinstance(voice, PersonaplexError):
        raise voice
    prompt = Prompt(voice, item.text.strip(), tuple(model.tokenizer.prompt_ids(item.text)))
    job = Job(item.item.id, item.item.path, prompt, item.seed, frames, item.channel, row.offset, row.duration)
    if request.long_audio is LongAudio.error:
        refuse_long(job, model.config.lm.context, request.align)
    return job


def choose_slots(asked: int | None, calls: int, slot_bytes: int, device: torch.device) -> int:
    """The asked-for number of slots, or as many as fit into the free memory, each with a cache of `slot_bytes`.

    A CPU needs no more than there are calls. Elsewhere another number might give other bits, so that what is left of
    a batch takes no fewer than the whole.
    """
    if asked is None:
        return default_slots(calls, slot_bytes, device)
    return max(1, min(asked, calls)) if device.type == "cpu" else asked


def _told_slots(jobs: Sequence[Job], request: BatchRequest, model: Model) -> int:
    """How many slots a run takes; told to the user."""
    if not jobs:
        return 1
    longest = positions(jobs, request.align.value)
    slot = cache_bytes(model.config, 1, longest, model.lm.dtype.itemsize)
    slots = choose_slots(request.slots, len(jobs), slot, model.device)
    gib = 2**30
    notice(
        f"slots: {slots}, each with {slot / gib:.3f} GiB of cache for the longest call "
        f"({longest} positions); {free_bytes(model.device) / gib:.1f} GiB are free"
    )
    return slots


def _settings(request: BatchRequest, run: Run) -> dict[str, Any]:
    """What `run.json` holds beside the volatile."""
    source = request.source
    return {
        "source": source.source,
        "glob": source.pattern,
        "product": asdict(source.product),
        "voice_prompt": source.voice,
        "voice_prompt_dir": _text(source.voice_folder),
        "text_prompt": source.text,
        "channel": source.channel,
        "seed": source.seed,
        "sampling": asdict(request.sampling),
        "align": request.align.value,
        "long_audio": request.long_audio.value,
        "output": asdict(request.outputs) | {"mix": source.mix},
        "model": asdict(run.model),
        "model_options": _model_options(request),
        "engine": asdict(run.engine),
    }


def _model_options(request: BatchRequest) -> dict[str, str | None]:
    """What finds the model again: `model` may be a folder, of which `run.json`'s `model` has the name alone."""
    options = request.model
    return {
        "model": options.name,
        "revision": options.revision,
        "moshi_weight": _text(options.overrides.lm),
        "mimi_weight": _text(options.overrides.mimi),
        "tokenizer": _text(options.overrides.tokenizer),
    }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
