"""`personaplex talk`: conversations between two personas."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.commands.batch import ended, parse_shard
from personaplex.cli.console import LogLevel, configure, log, result, summary
from personaplex.core.config import FRAME_RATE
from personaplex.core.errors import UsageError
from personaplex.core.faults import shown
from personaplex.runs.choices import DEFAULT_SEED, Dtype, Existing, Quantize

if TYPE_CHECKING:
    from personaplex.runs.talk.planning import PlannedTalks
    from personaplex.runs.talk.run import TalkOutcome

EXAMPLE = "Example: personaplex talk conversations.jsonl -o talks/ --voice-prompt NATM1"


def talk(
    source: Annotated[
        str, typer.Argument(help="A manifest of conversations (.jsonl, .json), or - for JSONL on stdin.")
    ],
    output_dir: Annotated[Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="Folder for all outputs.")],
    repeat: Annotated[
        int, o.option("--repeat", panel=o.INPUT, min=1, max=100_000, help="Run each conversation so often.")
    ] = 1,
    seconds: Annotated[
        float, o.option("--seconds", panel=o.INPUT, min=0.08, max=3600, help="Length of those that name none.")
    ] = 60.0,
    end_silence: Annotated[
        float,
        o.option("--end-silence", panel=o.INPUT, min=0, help="End after so many seconds without a word; 0: never."),
    ] = 10.0,
    end_goodbye: Annotated[
        bool, o.option("--end-goodbye/--no-end-goodbye", panel=o.INPUT, help="End soon after words of goodbye.")
    ] = True,
    voice_prompt: Annotated[
        str | None, o.option("--voice-prompt", panel=o.PERSONA, help="Voice of the sides that name none.")
    ] = None,
    voice_prompt_dir: o.VoiceFolder = None,
    seed: Annotated[
        int,
        o.option("--seed", panel=o.SAMPLING, min=-1, help="Each side's seed is made of this and its id; -1 draws one."),
    ] = DEFAULT_SEED,
    temp_text: o.TempText = 0.7,
    temp_audio: o.TempAudio = 0.8,
    topk_text: o.TopKText = 25,
    topk_audio: o.TopKAudio = 250,
    topp_text: o.TopPText = 1.0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    no_repeat_ngram: o.NoRepeatNgram = 0,
    greedy: o.Greedy = False,
    output_subtype: o.Subtype = "PCM_16",
    output_rate: o.Rate = 24_000,
    save_tokens: o.SaveTokens = False,
    existing: Annotated[
        Existing, o.option("--existing", panel=o.RUN, help="Those that are done: skip them, run them again, or stop.")
    ] = Existing.skip,
    slots: Annotated[
        int | None,
        o.option(
            "--slots", panel=o.RUN, min=2, show_default="what fits in memory", help="Two a conversation at a time."
        ),
    ] = None,
    shard: Annotated[
        str,
        o.option(
            "--shard", panel=o.RUN, metavar="I/N", help="Take the I-th of N stable shares; slurm: this array task's."
        ),
    ] = "1/1",
    fail_fast: Annotated[bool, o.option("--fail-fast", panel=o.RUN, help="Stop at the first failure.")] = False,
    max_failures: Annotated[
        int | None, o.option("--max-failures", panel=o.RUN, min=0, help="Stop when more than N have failed.")
    ] = None,
    dry_run: Annotated[bool, o.option("--dry-run", panel=o.RUN, help="Show what would be done, and stop.")] = False,
    model: o.ModelName = None,
    hf_repo: o.HubRepo = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: o.Device = "auto",
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
    """Let two personas talk to each other: both sides' WAVs and one transcript for each conversation.

    Run the same command again after an interruption: what is done is not done again.
    """
    configure(log_level, quiet)
    from personaplex.cli.progress import BatchObserver
    from personaplex.core.answers.outputs import OutputOptions
    from personaplex.core.sampling.draw import Sampling
    from personaplex.core.weights.model import Overrides
    from personaplex.runs.models.located import ModelOptions
    from personaplex.runs.talk.planning import leave_out_done, plan_talks
    from personaplex.runs.talk.request import TalkRequest
    from personaplex.runs.talk.run import run_talk

    if fail_fast and max_failures is not None:
        raise UsageError("--fail-fast and --max-failures exclude each other", "give one of them")
    if slots is not None and slots % 2:
        raise UsageError(f"--slots {slots}: a conversation takes two", "give an even number")
    request = TalkRequest(
        source=source,
        output=output_dir,
        repeat=repeat,
        seconds=seconds,
        voice=voice_prompt,
        voice_folder=voice_prompt_dir,
        sampling=Sampling(
            temp_text, topk_text, temp_audio, topk_audio, greedy, topp_text, repetition_penalty, no_repeat_ngram
        ),
        seed=o.chosen_seed(seed),
        end_silence=end_silence,
        ends_with_goodbye=end_goodbye,
        outputs=OutputOptions(output_subtype, output_rate, tokens=save_tokens),
        model=ModelOptions(
            o.model_name(model, hf_repo),
            revision,
            Overrides(moshi_weight, mimi_weight, tokenizer),
            device,
            dtype,
            cpu_offload,
            batch_invariant,
            quantize,
        ),
        graphs=cuda_graphs is o.Graphs.auto and not cpu_offload,
        slots=slots,
        shard=parse_shard(shard),
        existing=existing,
        max_failures=0 if fail_fast else max_failures,
        command=tuple(sys.argv),
    )
    if dry_run:
        _show_plan(leave_out_done(plan_talks(request), request, None), as_json)
        return
    observer = BatchObserver(not quiet)
    outcome = run_talk(request, observer)
    code = ended(outcome.counts, outcome.stopped, observer.interrupted)
    _show_summary(outcome, str(output_dir), as_json)
    raise typer.Exit(code)


def _show_plan(planned: "PlannedTalks", as_json: bool) -> None:
    for warning in planned.warnings:
        log.warning("%s", warning)
    told = {
        "conversations": len(planned.run) + len(planned.done) + len(planned.refused),
        "skipped": len(planned.done),
        "refused": len(planned.refused),
        "to_run": len(planned.run),
        "seconds": round(sum(one.frames for one in planned.run) / FRAME_RATE, 2),
    }
    if as_json:
        result(json.dumps(told | {"refused_rows": [one.error.what for one in planned.refused]}, ensure_ascii=False))
        return
    result(f"conversations  {told['conversations']:,}")
    result(f"  skipped      {told['skipped']:,} (done already)")
    if planned.refused:
        result(f"  refused      {told['refused']:,} (rows at fault)")
    result(f"  to run       {told['to_run']:,}: {told['seconds']:,.2f} s at most")
    for one in planned.refused[:10]:
        result(f"would fail     {shown(one.error.what)}")


def _show_summary(outcome: "TalkOutcome", output: str, as_json: bool) -> None:
    counts = outcome.counts
    if as_json:
        told = {"times_real_time": round(counts.times_real_time, 2), "output": output, "flags": dict(outcome.flags)}
        result(json.dumps(asdict(counts) | told, ensure_ascii=False))
        return
    summary(f"done     {counts.done:,}")
    summary(f"failed   {counts.failed:,}")
    summary(f"skipped  {counts.skipped:,} (done already)")
    if counts.not_run:
        summary(f"not run  {counts.not_run:,}")
    if counts.flagged:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in outcome.flags.items())
        summary(f"flagged  {counts.flagged:,} ({kinds}): see flags in the transcripts")
    audio, spent = f"{counts.audio_seconds:,.1f} s of conversation", f"{counts.seconds:,.1f} s"
    summary(f"{audio} in {spent}: {counts.times_real_time:.2f} × real time; results in {output}")
