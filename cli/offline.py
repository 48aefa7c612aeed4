"""`personaplex offline`: one call, a WAV in, the agent's WAV and its transcript out."""

import os
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, result
from personaplex.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from personaplex.cli.loading import ModelOptions
    from personaplex.core.job import Job
    from personaplex.core.outputs import OutputOptions, OutputPaths
    from personaplex.core.sampling import Sampling

EXAMPLE = "Example: personaplex offline --input-wav call.wav --voice-prompt NATM1"

DEFAULT_SEED = 42_424_242


def offline(
    input_wav: Annotated[Path, o.option("--input-wav", panel=o.INPUT, help="The caller's recording.")],
    voice_prompt: Annotated[
        str,
        o.option("--voice-prompt", panel=o.PERSONA, help="Voice: a catalogue name, a .pt or .safetensors, or audio."),
    ],
    output_wav: Annotated[
        Path | None,
        o.option(
            "--output-wav", panel=o.OUTPUT, dir_okay=False, show_default="<input>.agent.wav", help="The agent's WAV."
        ),
    ] = None,
    output_text: Annotated[
        Path | None,
        o.option("--output-text", panel=o.OUTPUT, dir_okay=False, show_default="<output>.json", help="The transcript."),
    ] = None,
    mix_wav: Annotated[
        Path | None,
        o.option("--mix-wav", panel=o.OUTPUT, dir_okay=False, help="Stereo: the caller left, the agent right."),
    ] = None,
    voice_prompt_dir: o.VoiceFolder = None,
    text_prompt: o.TextPrompt = None,
    text_prompt_file: o.TextPromptFile = None,
    role: o.Role = None,
    field: o.Field = None,
    channel: Annotated[
        str, o.option("--channel", panel=o.INPUT, help="Of a multichannel input: mix, left, right or a number from 0.")
    ] = "mix",
    long_audio: o.LongAudioOption = o.LongAudio.warn,
    seed: Annotated[
        int, o.option("--seed", panel=o.SAMPLING, min=-1, help="Decides every draw; -1 draws a seed and records it.")
    ] = DEFAULT_SEED,
    temp_text: o.TempText = 0.7,
    temp_audio: o.TempAudio = 0.8,
    topk_text: o.TopKText = 25,
    topk_audio: o.TopKAudio = 250,
    greedy: o.Greedy = False,
    align: o.Align = o.AlignOption.reference,
    output_subtype: o.Subtype = "PCM_16",
    output_rate: o.Rate = 24_000,
    format: o.Formats = "json",  # noqa: A002 (the option's name)
    save_tokens: o.SaveTokens = False,
    model: o.ModelName = None,
    hf_repo: o.HubRepo = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: o.Device = "auto",
    dtype: o.DtypeName = o.Dtype.auto,
    cpu_offload: o.CpuOffload = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Run one call: the caller's WAV in, the agent's WAV and a timestamped transcript out.

    Takes every flag of moshi.offline with its meaning and default.
    """
    configure(log_level, quiet)
    begun = time.perf_counter()
    from personaplex.cli.loading import ModelOptions, prompt_text
    from personaplex.core.exports import parse_formats
    from personaplex.core.model import Overrides
    from personaplex.core.outputs import OutputOptions, OutputPaths
    from personaplex.core.sampling import Sampling

    log.info("imported in %.2f s", time.perf_counter() - begun)
    wav = output_wav or Path(f"{input_wav.stem}.agent.wav")
    request = Request(
        input=input_wav,
        voice=voice_prompt,
        voice_folder=voice_prompt_dir,
        text=prompt_text(text_prompt, text_prompt_file, role, field or []),
        channel=check_channel(channel),
        seed=draw_seed() if seed == -1 else check_seed(seed),
        sampling=Sampling(temp_text, topk_text, temp_audio, topk_audio, greedy),
        align=align,
        paths=OutputPaths(wav, output_text or wav.with_suffix(".json"), mix_wav),
        output=OutputOptions(output_subtype, output_rate, parse_formats(format), save_tokens),
        model=ModelOptions(
            model, hf_repo, revision, Overrides(moshi_weight, mimi_weight, tokenizer), device, dtype, cpu_offload
        ),
        long_audio=long_audio,
        progress=not quiet,
    )
    try:
        document = run_one(request)
    except KeyboardInterrupt:
        log.error("interrupted")
        raise
    if as_json:
        from personaplex.core.transcript import dumps

        result(dumps(document).rstrip("\n"))
    else:
        for path in request.paths.all(request.output):
            result(str(path))


@dataclass(frozen=True)
class Request:
    """One call as the options describe it."""

    input: Path
    voice: str
    voice_folder: Path | None
    text: str
    channel: str
    seed: int
    sampling: "Sampling"
    align: o.AlignOption
    paths: "OutputPaths"
    output: "OutputOptions"
    model: "ModelOptions"
    long_audio: o.LongAudio
    progress: bool


def draw_seed() -> int:
    """A seed that is short to type again."""
    return secrets.randbelow(2**31)


def check_seed(seed: int) -> int:
    """`seed`, if the noise can take it; raises UsageError."""
    from personaplex.core.noise import MAX_SEED

    if seed > MAX_SEED:
        raise UsageError(f"--seed {seed} is too large", f"use one from 0 to {MAX_SEED}, or -1")
    return seed


def check_channel(channel: str) -> str:
    """`channel`, if it can name one; raises UsageError."""
    from personaplex.core.manifest import CHANNEL

    if not re.fullmatch(CHANNEL, channel):
        raise UsageError(f'--channel "{channel}" is unknown', "use mix, left, right, or a number from 0")
    return channel


def run_one(request: Request) -> dict[str, object]:
    """Run the call, write its files and return the transcript; raises PersonaplexError and leaves nothing behind."""
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    from personaplex.cli.loading import locate_model
    from personaplex.cli.progress import CallProgress
    from personaplex.core import audio
    from personaplex.core.batch import Batch, Plan
    from personaplex.core.job import Failure, Job, Prompt, Response
    from personaplex.core.outputs import Run, write
    from personaplex.voices.catalogue import find
    from personaplex.voices.loading import load_voice

    _check_paths(request)
    frames = audio.planned_frames(request.input)
    located = locate_model(request.model)
    voice_path = find(request.voice, request.voice_folder, located.voices_folder)
    model = located.load()
    voice = load_voice(voice_path, model)
    prompt = Prompt(voice, request.text.strip(), tuple(model.tokenizer.prompt_ids(request.text)))
    job = Job(request.input.stem, request.input, prompt, request.seed, frames, request.channel)
    if request.long_audio is o.LongAudio.error:
        refuse_long(job, model.config.lm.context, request.align)
    plan = Plan(1, request.sampling, request.align.value)
    run = Run.of(model, plan.slots, plan.sampling, plan.align, request.output)

    def deliver(response: Response) -> dict[str, object]:
        seconds = time.perf_counter() - start
        return write(response, run, request.paths, str(request.input), started, seconds)

    with CallProgress(request.progress) as progress:
        (outcome,) = Batch(model, plan, deliver, progress.update).run([job])
    if isinstance(outcome, Failure):
        raise outcome.error
    _report(outcome, time.perf_counter() - start)
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


def refuse_long(job: "Job", context: int, align: o.AlignOption) -> None:
    """Raise InputError for a call that is longer than the context."""
    from personaplex.core.call import live_calls

    calls = live_calls(job.frames, align.value)
    if job.prompt.steps + calls > context:
        what = f"{job.input}: {job.prompt.steps} prompt and {calls} live frames exceed the context of {context}"
        raise InputError(what, "shorten the call, or allow it with --long-audio warn")


def _report(document: dict[str, object], seconds: float) -> None:
    warnings, volatile = document["warnings"], document["volatile"]
    for warning in warnings if isinstance(warnings, list) else []:
        log.warning("%s", warning)
    phases = volatile["phases"] if isinstance(volatile, dict) else {}
    spent = ", ".join(f"{name} {value:.2f} s" for name, value in phases.items())
    log.info("%s; in all %.2f s", spent, seconds)
