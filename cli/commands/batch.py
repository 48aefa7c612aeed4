"""`personaplex batch`: a corpus of calls through one loaded model."""

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.commands.measure import Vad, measure_into
from personaplex.cli.console import LogLevel, configure, log, result, summary
from personaplex.core.config import FRAME_RATE
from personaplex.core.errors import UsageError
from personaplex.core.faults import shown
from personaplex.runs.choices import DEFAULT_SEED, Alignment, Dtype, Existing, LongAudio, Quantize

if TYPE_CHECKING:
    from personaplex.runs.batch import Outcome
    from personaplex.runs.forecast import Forecast
    from personaplex.runs.ledger import Counts
    from personaplex.runs.measures.measuring import RunMeasures

EXAMPLE = "Example: personaplex batch calls/ -o answers/ --voice-prompt NATM1"


def batch(
    source: Annotated[
        str,
        typer.Argument(help="A directory (walked), a manifest (.jsonl, .csv), a URL of one, or - for JSONL on stdin."),
    ],
    output_dir: Annotated[
        str, o.option("--output-dir", "-o", panel=o.OUTPUT, help="Folder for all outputs, or a URL such as s3://….")
    ],
    glob: Annotated[
        str | None, o.option("--glob", panel=o.INPUT, help="Which files of a directory, such as '*.flac'.")
    ] = None,
    channel: Annotated[
        str, o.option("--channel", panel=o.INPUT, help="Of multichannel inputs: mix, left, right or a number from 0.")
    ] = "mix",
    long_audio: o.LongAudioOption = LongAudio.warn,
    voice_prompt: Annotated[
        str | None, o.option("--voice-prompt", panel=o.PERSONA, help="Voice of the items that name none.")
    ] = None,
    voice_prompt_dir: o.VoiceFolder = None,
    text_prompt: o.TextPrompt = None,
    text_prompt_file: o.TextPromptFile = None,
    role: o.Role = None,
    field: o.Field = None,
    voices: Annotated[
        str, o.option("--voices", panel=o.PERSONA, help="Run every item with each of these voices, comma-separated.")
    ] = "",
    roles: Annotated[
        str, o.option("--roles", panel=o.PERSONA, help="Run every item with each of these roles, comma-separated.")
    ] = "",
    seeds: Annotated[
        str, o.option("--seeds", panel=o.SAMPLING, help="Run every item with each of these seeds, comma-separated.")
    ] = "",
    seed: Annotated[
        int,
        o.option("--seed", panel=o.SAMPLING, min=-1, help="Each item's seed is made of this and its id; -1 draws one."),
    ] = DEFAULT_SEED,
    temp_text: o.TempText = 0.7,
    temp_audio: o.TempAudio = 0.8,
    topk_text: o.TopKText = 25,
    topk_audio: o.TopKAudio = 250,
    topp_text: o.TopPText = 1.0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    no_repeat_ngram: o.NoRepeatNgram = 0,
    greedy: o.Greedy = False,
    align: o.Align = Alignment.reference,
    output_subtype: o.Subtype = "PCM_16",
    output_rate: o.Rate = 24_000,
    format: o.Formats = "json",  # noqa: A002 (the option's name)
    save_tokens: o.SaveTokens = False,
    mix: Annotated[
        bool, o.option("--mix", panel=o.OUTPUT, help="Also write <id>.mix.wav: the caller left, the agent right.")
    ] = False,
    existing: Annotated[
        Existing, o.option("--existing", panel=o.RUN, help="Items that are done: skip them, run them again, or stop.")
    ] = Existing.skip,
    slots: Annotated[
        int | None, o.option("--slots", panel=o.RUN, min=1, show_default="what fits in memory", help="Calls at a time.")
    ] = None,
    shard: Annotated[
        str,
        o.option(
            "--shard", panel=o.RUN, metavar="I/N", help="Take the I-th of N stable shares; slurm: this array task's."
        ),
    ] = "1/1",
    fail_fast: Annotated[bool, o.option("--fail-fast", panel=o.RUN, help="Stop at the first failure.")] = False,
    max_failures: Annotated[
        int | None, o.option("--max-failures", panel=o.RUN, min=0, help="Stop when more than N items have failed.")
    ] = None,
    retry_failed: Annotated[
        bool, o.option("--retry-failed", panel=o.RUN, help="Run only the items that results.jsonl has as failed.")
    ] = False,
    measure: Annotated[
        bool, o.option("--measure", panel=o.RUN, help="Measure turn-taking at the end, as `personaplex measure` does.")
    ] = False,
    dry_run: Annotated[bool, o.option("--dry-run", panel=o.RUN, help="Show what would be done, and stop.")] = False,
    model: o.ModelName = None,
    hf_repo: o.HubRepo = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: o.Device = "auto",
    devices: Annotated[
        str | None,
        o.option("--devices", panel=o.RUN, help="A process on each of these: all, cuda:0,cuda:1 and so on, or cpu:4."),
    ] = None,
    same_device_kind: Annotated[
        bool, o.option("--same-device-kind", panel=o.RUN, help="Refuse devices of another kind than the first one's.")
    ] = False,
    dtype: o.DtypeName = Dtype.auto,
    quantize: o.QuantizeOption = Quantize.none,
    cpu_offload: o.CpuOffload = False,
    cuda_graphs: o.CudaGraphs = o.Graphs.auto,
    batch_invariant: o.BatchInvariant = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Run many calls: a WAV and a transcript for each, results.jsonl and run.json for all.

    Run the same command again after an interruption: what is done is not done again.
    """
    configure(log_level, quiet)
    from personaplex.cli.progress import BatchObserver
    from personaplex.core.answers.exports import parse_formats
    from personaplex.core.answers.outputs import OutputOptions
    from personaplex.core.corpus.sources import Product
    from personaplex.core.sampling.draw import Sampling
    from personaplex.core.storage.urls import Stored, is_url, without_secrets
    from personaplex.core.weights.model import Overrides
    from personaplex.prompts.chosen import prompt_text
    from personaplex.runs.batch import run_batch
    from personaplex.runs.devices.chosen import parse_devices
    from personaplex.runs.forecast import forecast
    from personaplex.runs.models.located import ModelOptions
    from personaplex.runs.planning.outlet import Outlet
    from personaplex.runs.planning.request import BatchRequest, SourceOptions

    if fail_fast and max_failures is not None:
        raise UsageError("--fail-fast and --max-failures exclude each other", "give one of them")
    if devices is not None and device != "auto":
        raise UsageError("--device and --devices exclude each other", "give one of them")
    chosen = [] if devices is None else parse_devices(devices)
    share = parse_shard(shard)
    outlet = Outlet(Stored(output_dir), share) if is_url(output_dir) else None
    if outlet is not None and measure:
        mend = "copy them here when they are made, and run `personaplex measure`"
        raise UsageError(f"--measure reads answers of this machine, and -o {outlet.root} is in a store", mend)
    output = Path(output_dir) if outlet is None else outlet.folder
    if chosen and outlet is not None:
        raise UsageError("--devices writes to folders, and -o is in a store", "write to a folder, or use --shard")
    product = Product(_names(voices), _names(roles), tuple(_seed(text) for text in _names(seeds)))
    request = BatchRequest(
        source=SourceOptions(
            source=source,
            output=output,
            outlet=outlet,
            pattern=glob,
            product=product,
            voice=voice_prompt,
            voice_folder=voice_prompt_dir,
            text=prompt_text(text_prompt, text_prompt_file, role, o.fields(field)),
            channel=channel,
            seed=o.chosen_seed(seed),
            mix=mix,
        ),
        outputs=OutputOptions(output_subtype, output_rate, parse_formats(format), save_tokens),
        sampling=Sampling(
            temp_text, topk_text, temp_audio, topk_audio, greedy, topp_text, repetition_penalty, no_repeat_ngram
        ),
        align=align,
        model=ModelOptions(
            o.model_name(model, hf_repo),
            revision,
            Overrides(moshi_weight, mimi_weight, tokenizer),
            chosen[0].device if chosen else device,
            dtype,
            cpu_offload,
            batch_invariant,
            quantize,
        ),
        graphs=cuda_graphs is o.Graphs.auto and not cpu_offload,
        slots=slots,
        shard=share,
        existing=existing,
        max_failures=0 if fail_fast else max_failures,
        retry_failed=retry_failed,
        long_audio=long_audio,
        command=tuple(map(without_secrets, sys.argv)),
    )
    if dry_run:
        _show_forecast(forecast(request), as_json)
        return
    if measure:
        from personaplex.runs.measures.measuring import check_places

        check_places(output)
    observer = BatchObserver(not quiet)
    outcome = run_batch(request, observer, chosen, same_device_kind)
    code = ended(outcome.counts, outcome.stopped, observer.interrupted)
    measured = _measured(outcome, output, not quiet) if measure else None
    _show_summary(outcome, without_secrets(output_dir), as_json, measured)
    raise typer.Exit(code or int(bool(measured and measured.failed)))


def _measured(outcome: "Outcome", output: Path, is_shown: bool) -> "RunMeasures | None":
    """Measure what a batch has answered; nothing if it was interrupted, or has no answers."""
    if outcome.stopped or not outcome.counts.done + outcome.counts.skipped:
        return None
    return measure_into(output, output, None, Vad.energy, is_shown)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise UsageError(f'--seeds: "{text}" is not a seed', "give whole numbers, comma-separated")
    return o.check_seed(int(text))


def parse_shard(text: str) -> tuple[int, int]:
    """What `--shard` says; raises UsageError."""
    if text == "slurm":
        return _slurm_shard()
    index, _, count = text.partition("/")
    if not (re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text) and 1 <= int(index) <= int(count)):
        raise UsageError(f'--shard "{text}" makes no sense', "write I/N, such as 1/4 to 4/4, or slurm")
    return int(index), int(count)


def _slurm_shard() -> tuple[int, int]:
    """The share of a task of a Slurm job array, wherever its numbers begin and however they are spaced."""
    found = {}
    for name in ("ID", "COUNT", "MIN", "STEP"):
        variable = f"SLURM_ARRAY_TASK_{name}"
        text = os.environ.get(variable, "1" if name == "STEP" else "")
        if not re.fullmatch(r"[0-9]{1,9}", text):
            what = f'--shard slurm: {variable} is "{text}"' if text else f"--shard slurm: {variable} is not set"
            raise UsageError(what, "start it in a job array, with `sbatch --array=1-8`, or write I/N")
        found[name] = int(text)
    place, rest = divmod(found["ID"] - found["MIN"], max(1, found["STEP"]))
    if rest or not 0 <= place < found["COUNT"]:
        what = f"--shard slurm: task {found['ID']} is none of {found['COUNT']} from {found['MIN']} in equal steps"
        raise UsageError(what, "give the array as a range, such as --array=1-8, or write I/N")
    return place + 1, found["COUNT"]


def ended(counts: "Counts", stopped: bool, interrupted: int) -> int:
    """Say why a run ended early, if it did; returns its exit code, `interrupted` of one that was `stopped`."""
    if stopped:
        log.error("interrupted: %d items not run; run the same command again to go on", counts.not_run)
        return interrupted
    if counts.not_run:
        log.error("stopped after %d failure%s", counts.failed, "s" if counts.failed > 1 else "")
    return 1 if counts.failed else 0


def _show_forecast(found: "Forecast", as_json: bool) -> None:
    for warning in found.warnings:
        log.warning("%s", warning)
    if as_json:
        document = asdict(found)
        del document["warnings"]
        document |= {"audio_hours": round(found.audio_hours, 4), "passed_over": found.passed_over.document()}
        result(json.dumps(document, indent=2, ensure_ascii=False))
        return
    gib = 2**30
    result(f"items         {found.items:,}")
    result(f"  skipped     {found.skipped:,} (done already)")
    if found.refused:
        result(f"  refused     {found.refused:,} (rows or names at fault)")
    result(f"  unreadable  {found.unreadable:,}")
    result(f"  to run      {found.to_run:,}: {found.audio_hours:.2f} hours of audio, {found.frames:,} frames")
    result(f"longest call  {found.longest_frames:,} frames, {found.longest_frames / FRAME_RATE:.1f} s")
    result(f"memory        {found.weights_bytes / gib:.2f} GiB of weights, about {found.cache_bytes / gib:.2f} GiB of")
    result(f"              cache for {found.slots} slots")
    for line in found.passed_over.lines():
        result(line)
    for text in (found.refused_rows + found.unreadable_files)[:10]:
        result(f"would fail    {shown(text)}")


def _show_summary(outcome: "Outcome", output: str, as_json: bool, measured: "RunMeasures | None") -> None:
    counts = outcome.counts
    if as_json:
        document = asdict(counts) | {"times_real_time": round(counts.times_real_time, 2), "output": output}
        document |= {"passed_over": outcome.passed_over.document()}
        document["tail"] = None if outcome.tail is None else asdict(outcome.tail)
        if measured is not None:
            document["measures"] = measured.document
        result(json.dumps(document, ensure_ascii=False))
        return
    summary(f"done     {counts.done:,}")
    summary(f"failed   {counts.failed:,}")
    summary(f"skipped  {counts.skipped:,} (done already)")
    if counts.not_run:
        summary(f"not run  {counts.not_run:,}")
    if counts.flagged:
        summary(f"flagged  {counts.flagged:,} (loops or dead air: see flags in the transcripts)")
    for line in outcome.passed_over.lines():
        summary(line)
    audio, spent = f"{counts.audio_seconds:,.1f} s of audio", f"{counts.seconds:,.1f} s"
    summary(f"{audio} in {spent}: {counts.times_real_time:.2f} × real time; results in {output}")
    if outcome.tail is not None:
        summary(
            f"slots stood empty for {outcome.tail.empty_seconds:,.1f} s at the end; the calls took "
            f"{outcome.tail.running_seconds:,.1f} s, in no order less than {outcome.tail.least_seconds:,.1f} s"
        )
    if measured is not None:
        from personaplex.cli.measures import show_measures

        summary("")
        show_measures(measured, summary)
