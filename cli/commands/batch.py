"""`personaplex batch`: a corpus of calls through one loaded model."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.commands.offline import DEFAULT_SEED
from personaplex.cli.console import LogLevel, configure
from personaplex.core.errors import UsageError

if TYPE_CHECKING:
    from personaplex.core.answers.outputs import OutputOptions
    from personaplex.core.sampling.draw import Sampling
    from personaplex.runs.models.located import ModelOptions
    from personaplex.runs.plan import SourceOptions

EXAMPLE = "Example: personaplex batch calls/ -o answers/ --voice-prompt NATM1"


class Existing(StrEnum):
    """What to do with an item whose outputs are there."""

    skip = "skip"
    overwrite = "overwrite"
    error = "error"


@dataclass(frozen=True)
class BatchRequest:
    """A batch as the options describe it."""

    source: "SourceOptions"
    outputs: "OutputOptions"
    sampling: "Sampling"
    align: o.AlignOption
    model: "ModelOptions"
    graphs: bool
    slots: int | None
    shard: tuple[int, int]
    existing: Existing
    max_failures: int | None
    retry_failed: bool
    dry_run: bool
    long_audio: o.LongAudio
    as_json: bool
    progress: bool


def batch(
    source: Annotated[
        str, typer.Argument(help="A directory (walked), a manifest (.jsonl, .csv), or - for JSONL on stdin.")
    ],
    output_dir: Annotated[Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="Folder for all outputs.")],
    glob: Annotated[
        str | None, o.option("--glob", panel=o.INPUT, help="Which files of a directory, such as '*.flac'.")
    ] = None,
    channel: Annotated[
        str, o.option("--channel", panel=o.INPUT, help="Of multichannel inputs: mix, left, right or a number from 0.")
    ] = "mix",
    long_audio: o.LongAudioOption = o.LongAudio.warn,
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
    align: o.Align = o.AlignOption.reference,
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
        str, o.option("--shard", panel=o.RUN, metavar="I/N", help="Take the I-th of N stable shares of the items.")
    ] = "1/1",
    fail_fast: Annotated[bool, o.option("--fail-fast", panel=o.RUN, help="Stop at the first failure.")] = False,
    max_failures: Annotated[
        int | None, o.option("--max-failures", panel=o.RUN, min=0, help="Stop when more than N items have failed.")
    ] = None,
    retry_failed: Annotated[
        bool, o.option("--retry-failed", panel=o.RUN, help="Run only the items that results.jsonl has as failed.")
    ] = False,
    dry_run: Annotated[bool, o.option("--dry-run", panel=o.RUN, help="Show what would be done, and stop.")] = False,
    model: o.ModelName = None,
    hf_repo: o.HubRepo = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: o.Device = "auto",
    dtype: o.DtypeName = o.Dtype.auto,
    cpu_offload: o.CpuOffload = False,
    cuda_graphs: o.CudaGraphs = o.Graphs.auto,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Run many calls: a WAV and a transcript for each, results.jsonl and run.json for all.

    Run the same command again after an interruption: what is done is not done again.
    """
    configure(log_level, quiet)
    from personaplex.core.answers.exports import parse_formats
    from personaplex.core.answers.outputs import OutputOptions
    from personaplex.core.corpus.sources import Product
    from personaplex.core.sampling.draw import Sampling
    from personaplex.core.weights.model import Overrides
    from personaplex.runs.batch import run_batch
    from personaplex.runs.jobs import check_seed, draw_seed
    from personaplex.runs.models.located import ModelOptions, prompt_text
    from personaplex.runs.plan import SourceOptions

    if fail_fast and max_failures is not None:
        raise UsageError("--fail-fast and --max-failures exclude each other", "give one of them")
    product = Product(_names(voices), _names(roles), tuple(_seed(text) for text in _names(seeds)))
    request = BatchRequest(
        source=SourceOptions(
            source=source,
            output=output_dir,
            pattern=glob,
            product=product,
            voice=voice_prompt,
            voice_folder=voice_prompt_dir,
            text=prompt_text(text_prompt, text_prompt_file, role, field or []),
            channel=channel,
            seed=draw_seed() if seed == -1 else check_seed(seed),
            mix=mix,
        ),
        outputs=OutputOptions(output_subtype, output_rate, parse_formats(format), save_tokens),
        sampling=Sampling(
            temp_text, topk_text, temp_audio, topk_audio, greedy, topp_text, repetition_penalty, no_repeat_ngram
        ),
        align=align,
        model=ModelOptions(
            model, hf_repo, revision, Overrides(moshi_weight, mimi_weight, tokenizer), device, dtype, cpu_offload
        ),
        graphs=cuda_graphs is o.Graphs.auto and not cpu_offload,
        slots=slots,
        shard=_shard(shard),
        existing=existing,
        max_failures=0 if fail_fast else max_failures,
        retry_failed=retry_failed,
        dry_run=dry_run,
        long_audio=long_audio,
        as_json=as_json,
        progress=not quiet,
    )
    raise typer.Exit(run_batch(request))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise UsageError(f'--seeds: "{text}" is not a seed', "give whole numbers, comma-separated")
    from personaplex.runs.jobs import check_seed

    return check_seed(int(text))


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text) and 1 <= int(index) <= int(count)):
        raise UsageError(f'--shard "{text}" makes no sense', "write I/N, such as 1/4 to 4/4")
    return int(index), int(count)
