"""Running one call: find, load, run, write, report."""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from personaplex.cli import options as o
from personaplex.cli.console import log
from personaplex.cli.progress import CallProgress
from personaplex.core.answers.outputs import OutputOptions, OutputPaths, Run, write
from personaplex.core.audio import reading
from personaplex.core.engine.batch import Batch, Plan
from personaplex.core.engine.call import Align
from personaplex.core.engine.job import Failure, Job, Prompt, Response
from personaplex.core.engine.live import run_live
from personaplex.core.errors import UsageError
from personaplex.core.sampling.draw import Sampling
from personaplex.runs.jobs import refuse_long
from personaplex.runs.models.located import ModelOptions, locate_model
from personaplex.voices.catalogue import find
from personaplex.voices.loading import load_voice


@dataclass(frozen=True)
class Request:
    """One call as the options describe it."""

    input: Path
    voice: str
    voice_folder: Path | None
    text: str
    channel: str
    seed: int
    sampling: Sampling
    align: o.AlignOption
    paths: OutputPaths
    output: OutputOptions
    model: ModelOptions
    graphs: bool
    long_audio: o.LongAudio
    pace: o.PaceOption
    progress: bool


def run_one(request: Request) -> dict[str, object]:
    """Run the call, write its files and return the transcript; raises PersonaplexError and leaves nothing behind."""
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    _check_paths(request)
    frames = reading.planned_frames(request.input)
    located = locate_model(request.model)
    voice_path = find(request.voice, request.voice_folder, located.voices_folder)
    model = located.load()
    voice = load_voice(voice_path, model)
    prompt = Prompt(voice, request.text.strip(), tuple(model.tokenizer.prompt_ids(request.text)))
    job = Job(request.input.stem, request.input, prompt, request.seed, frames, request.channel)
    if request.long_audio is o.LongAudio.error:
        refuse_long(job, model.config.lm.context, request.align)
    align: Align = request.align.value
    live = request.pace is o.PaceOption.realtime
    run = Run.of(model, 1, request.sampling, align, request.output, "realtime" if live else "batch")

    def deliver(response: Response) -> dict[str, object]:
        seconds = time.perf_counter() - start
        return write(response, run, request.paths, str(request.input), started, seconds)

    with CallProgress(request.progress) as progress:
        if live:
            outcome = deliver(run_live(job, model, request.sampling, align, progress.follow))
        else:
            outcome = _run_batch(
                Batch(model, Plan(1, request.sampling, align, request.graphs), deliver, progress.update), job
            )
    _report(outcome, time.perf_counter() - start)
    return outcome


def _run_batch(batch: Batch[dict[str, object]], job: Job) -> dict[str, object]:
    (outcome,) = batch.run([job])
    if isinstance(outcome, Failure):
        raise outcome.error
    return outcome


def _check_paths(request: Request) -> None:
    """No output may take another's place, the input's or the voice's, and every folder must be there."""
    paths = [path.resolve() for path in request.paths.all(request.output)]
    for path in paths:
        o.check_utf8(str(path), f"the path {os.fsencode(path)!r}")
        if path == request.input.resolve():
            raise UsageError(f"the output {path} would replace the input", "choose another --output-wav")
        if path == Path(request.voice).resolve():
            raise UsageError(f"the output {path} would replace the voice", "choose other names")
        if paths.count(path) > 1:
            raise UsageError(f"two outputs would be {path}", "choose other names")
        if not os.path.isdir(path.parent):  # Path.is_dir raises for a name that is too long
            raise UsageError(f"{path}: there is no folder {path.parent}", "create it first")


def _report(document: dict[str, object], seconds: float) -> None:
    warnings, volatile = document["warnings"], document["volatile"]
    for warning in warnings if isinstance(warnings, list) else []:
        log.warning("%s", warning)
    phases = volatile["phases"] if isinstance(volatile, dict) else {}
    spent = ", ".join(f"{name} {value:.2f} s" for name, value in phases.items())
    log.info("%s; in all %.2f s", spent, seconds)
