"""`personaplex offline`: one call, a WAV in, the agent's WAV and its transcript out."""

import time
from pathlib import Path
from typing import Annotated, Any

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, result, summary
from personaplex.runs.choices import DEFAULT_SEED, Alignment, Dtype, LongAudio, Pace, Quantize

EXAMPLE = "Example: personaplex offline --input-wav call.wav --voice-prompt NATM1"


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
    long_audio: o.LongAudioOption = LongAudio.warn,
    seed: Annotated[
        int, o.option("--seed", panel=o.SAMPLING, min=-1, help="Decides every draw; -1 draws a seed and records it.")
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
    pace: Annotated[
        Pace,
        o.option("--pace", panel=o.RUN, help="none: as fast as it goes; realtime: as a live call, its latencies told."),
    ] = Pace.none,
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
    from personaplex.cli.progress import CallObserver
    from personaplex.core.answers.exports import parse_formats
    from personaplex.core.answers.outputs import OutputOptions, OutputPaths
    from personaplex.core.sampling.draw import Sampling
    from personaplex.core.weights.model import Overrides
    from personaplex.prompts.chosen import prompt_text
    from personaplex.runs.call import CallRequest, run_call
    from personaplex.runs.models.located import ModelOptions
    from personaplex.runs.planning.plan import check_channel

    log.info("imported in %.2f s", time.perf_counter() - begun)
    wav = output_wav or Path(f"{input_wav.stem}.agent.wav")
    request = CallRequest(
        input=input_wav,
        voice=voice_prompt,
        voice_folder=voice_prompt_dir,
        text=prompt_text(text_prompt, text_prompt_file, role, o.fields(field)),
        channel=check_channel(channel),
        seed=o.chosen_seed(seed),
        sampling=Sampling(
            temp_text, topk_text, temp_audio, topk_audio, greedy, topp_text, repetition_penalty, no_repeat_ngram
        ),
        align=align,
        paths=OutputPaths(wav, output_text or wav.with_suffix(".json"), mix_wav),
        output=OutputOptions(output_subtype, output_rate, parse_formats(format), save_tokens),
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
        long_audio=long_audio,
        pace=pace,
    )
    start = time.perf_counter()
    document = run_call(request, CallObserver(not quiet))
    _report(document, time.perf_counter() - start)
    if as_json:
        from personaplex.core.answers.transcript import dumps

        result(dumps(document).rstrip("\n"))
    else:
        for path in request.paths.all(request.output):
            summary(str(path))


def _report(document: dict[str, Any], seconds: float) -> None:
    for warning in document["warnings"]:
        log.warning("%s", warning)
    spent = ", ".join(f"{name} {value:.2f} s" for name, value in document["volatile"]["phases"].items())
    log.info("%s; in all %.2f s", spent, seconds)
