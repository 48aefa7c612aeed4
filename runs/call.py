"""Running one call: find, load, run, write."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from personaplex.core.answers.outputs import OutputOptions, OutputPaths, Run, write
from personaplex.core.audio import reading
from personaplex.core.audio.reading import Audio
from personaplex.core.engine.batch import Batch, Plan
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure, Job, Response
from personaplex.core.engine.live import run_live
from personaplex.core.errors import UsageError
from personaplex.core.files import check_utf8
from personaplex.core.sampling.draw import Sampling
from personaplex.runs.choices import Alignment, LongAudio, Pace
from personaplex.runs.delivery import standings
from personaplex.runs.jobs import make_prompt, refuse_long
from personaplex.runs.models.located import ModelOptions, locate_model
from personaplex.runs.observer import Observer, Standing
from personaplex.voices.catalogue import find
from personaplex.voices.loading import load_voice


@dataclass(frozen=True)
class CallRequest:
    """One call as its caller describes it."""

    input: Path
    voice: str
    voice_folder: Path | None
    text: str
    channel: str
    seed: int
    sampling: Sampling
    align: Alignment
    paths: OutputPaths
    output: OutputOptions
    model: ModelOptions
    graphs: bool
    long_audio: LongAudio
    pace: Pace


def run_call(request: CallRequest, observer: Observer) -> dict[str, Any]:
    """Run the call, write its files and return the transcript; raises PersonaplexError and leaves nothing behind."""
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    _check_paths(request)
    frames = reading.planned_frames(request.input)
    located = locate_model(request.model)
    voice_path = find(request.voice, request.voice_folder, located.voices_folder)
    model = located.load()
    prompt = make_prompt(load_voice(voice_path, model), request.text, model)
    job = Job(request.input.stem, request.input, prompt, request.seed, frames, request.channel)
    if request.long_audio is LongAudio.error:
        refuse_long(job, model.config.lm.context, request.align)
    live = request.pace is Pace.realtime
    run = Run.of(model, 1, request.sampling, request.align.value, request.output, "realtime" if live else "batch")

    def deliver(response: Response) -> dict[str, Any]:
        seconds = time.perf_counter() - start
        return write(response, run, request.paths, str(request.input), started, seconds)

    def follow(name: str, done: int, total: int) -> None:
        observer.ticked([Standing(name, done, total)])

    with observer.running(live_calls(frames, run.align)):
        if live:
            return deliver(run_live(job, model, run.sampling, run.align, request.graphs, follow))
        batch = Batch(
            model,
            Plan(1, run.sampling, run.align, request.graphs),
            deliver,
            lambda calls: observer.ticked(standings(calls)),
        )
        (outcome,) = batch.run([job])
    if isinstance(outcome, Failure):
        raise outcome.error
    return outcome


def _check_paths(request: CallRequest) -> None:
    """No output may take another's place, the input's or the voice's, and every folder must be there."""
    paths = request.paths.all(request.output)
    check_targets(paths, request.input, Path(request.voice))
    for path in (path.resolve() for path in paths):
        if not os.path.isdir(path.parent):  # Path.is_dir raises for a name that is too long
            raise UsageError(f"{path}: there is no folder {path.parent}", "create it first")


def check_targets(outputs: Sequence[Path], source: Audio, voice: Path) -> None:
    """Raise UsageError for an output that would replace the input, the voice or another output."""
    paths = [path.resolve() for path in outputs]
    for path in paths:
        check_utf8(path.name, f"the name {os.fsencode(path.name)!r}", "choose another name")
        if isinstance(source, Path) and path == source.resolve():
            raise UsageError(f"the output {path} would replace the input", "choose another --output-wav")
        if path == voice.resolve():
            raise UsageError(f"the output {path} would replace the voice", "choose other names")
        if paths.count(path) > 1:
            raise UsageError(f"two outputs would be {path}", "choose other names")
