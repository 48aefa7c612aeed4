"""Options that several commands share, and the TOML file behind them."""

import secrets
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from personaplex.cli.console import LogLevel
from personaplex.core.errors import UsageError
from personaplex.runs.choices import Alignment, Dtype, LongAudio, Quantize

INPUT, PERSONA, SAMPLING, OUTPUT = "Input", "Persona", "Sampling", "Output"
RUN, MODEL, GENERAL = "Run", "Model", "General"


class Graphs(StrEnum):
    """Whether a tick is captured as a CUDA graph."""

    auto = "auto"
    off = "off"


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the file's settings the command's defaults: top-level keys, then those of its table, [regress.check] say."""
    if path is None:
        return None
    chosen = _settings_of(ctx, path)
    known = {option_name(parameter): parameter for parameter in ctx.command.params if is_settable(parameter)}
    unknown = [key for key in chosen if key not in known]
    if unknown:
        raise UsageError(f"--config {path}: no option is called {', '.join(unknown)}", f"see `{ctx.command_path} -h`")
    for key, value in chosen.items():
        if isinstance(value, dict) or isinstance(value, list) != known[key].multiple:
            mend = "give a list of values" if known[key].multiple else "give one value"
            raise UsageError(f"--config {path}: {key} is {value!r}", mend)
    ctx.default_map = {**(ctx.default_map or {}), **{known[key].name: value for key, value in chosen.items()}}
    return path


def _settings_of(ctx: typer.Context, path: Path) -> dict[str, Any]:
    """The keys above all tables, then those of each table on the way to the command; raises UsageError."""
    table = _read_toml(path)
    command: Any = ctx.find_root().command
    chosen: dict[str, Any] = {}
    for name in [*_names(ctx), ""]:
        commands = getattr(command, "commands", {})
        tables = {key: value for key, value in table.items() if commands and isinstance(value, dict)}
        strangers = [f"[{key}]" for key in tables if key not in commands]
        if strangers:
            raise UsageError(f"--config {path}: no command is called {', '.join(strangers)}", "see `personaplex -h`")
        chosen |= {key.replace("_", "-"): value for key, value in table.items() if key not in tables}
        table, command = tables.get(name, {}), commands.get(name)
    return chosen


def _names(ctx: Any) -> list[str]:
    """What the command is called below `personaplex`: ["regress", "check"], say."""
    return [] if ctx.parent is None else [*_names(ctx.parent), ctx.info_name]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}", "name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not TOML ({error})", "mend the file") from error


def key_and_value(field: str) -> tuple[str, str]:
    """The two halves of a --field; raises UsageError."""
    key, found, value = field.partition("=")
    if not found:
        raise UsageError(f'--field "{field}" has no "="', "write --field key=value")
    return key.strip(), value


def fields(given: Sequence[str] | None) -> dict[str, str]:
    """The --field options by their keys; raises UsageError."""
    return dict(map(key_and_value, given or ()))


def model_name(model: str | None, hf_repo: str | None) -> str:
    """The model that --model or --hf-repo names, or the published one; raises UsageError for two."""
    from personaplex.core.weights.published import HUB_MODEL

    if model and hf_repo and model != hf_repo:
        raise UsageError("--model and --hf-repo name two models", "give one of them")
    return model or hf_repo or HUB_MODEL


def chosen_seed(seed: int) -> int:
    """`seed`, or for -1 a drawn one that is short to type again; raises UsageError."""
    return secrets.randbelow(2**31) if seed == -1 else check_seed(seed)


def check_seed(seed: int) -> int:
    """`seed`, if the noise can take it; raises UsageError."""
    from personaplex.core.sampling.noise import MAX_SEED

    if seed > MAX_SEED:
        raise UsageError(f"--seed {seed} is too large", f"use one from 0 to {MAX_SEED}, or -1")
    return seed


def is_settable(parameter: Any) -> bool:
    """Whether a parameter is an option that the environment and the TOML file may set."""
    return parameter.param_type_name == "option" and not parameter.is_eager


def option_name(parameter: Any) -> str:
    """An option's long name without its dashes."""
    return str(max(parameter.opts, key=len)).removeprefix("--")


def option(*names: str, panel: str, **more: Any) -> Any:
    """A `typer.Option` in a panel of the help."""
    return typer.Option(*names, rich_help_panel=panel, **more)


Quiet = Annotated[bool, option("--quiet", "-q", panel=GENERAL, help="Say nothing but errors.")]
Level = Annotated[LogLevel, option("--log-level", panel=GENERAL, help="How much to say on stderr.")]
AsJson = Annotated[bool, option("--json", panel=GENERAL, help="Print the result as JSON.")]
Config = Annotated[
    Path | None,
    option(
        "--config",
        panel=GENERAL,
        callback=_read_config,
        is_eager=True,
        help="TOML file of defaults: keys are option names, under [COMMAND] or above all tables.",
    ),
]

ModelName = Annotated[
    str | None,
    option(
        "--model",
        panel=MODEL,
        show_default="the published 7B",
        help="Hub id, directory, or packaged model: nano, tiny.",
    ),
]
HubRepo = Annotated[str | None, option("--hf-repo", panel=MODEL, help="Hub id, as moshi.offline has it.")]
Revision = Annotated[str | None, option("--revision", panel=MODEL, help="Commit, tag or branch of the hub's model.")]
MoshiWeight = Annotated[
    Path | None, option("--moshi-weight", panel=MODEL, help="Language model checkpoint in place of the model's own.")
]
MimiWeight = Annotated[
    Path | None, option("--mimi-weight", panel=MODEL, help="Codec checkpoint in place of the model's own.")
]
TokenizerFile = Annotated[
    Path | None, option("--tokenizer", panel=MODEL, help="SentencePiece file in place of the model's own.")
]
Device = Annotated[str, option("--device", panel=MODEL, help="auto, cuda, cuda:N, mps or cpu.")]
DtypeName = Annotated[Dtype, option("--dtype", panel=MODEL, help="Type to compute in; auto keeps the stored one.")]
QuantizeOption = Annotated[
    Quantize, option("--quantize", panel=MODEL, help="int8: the large layers in int8, in some 60 % of the memory.")
]
CudaGraphs = Annotated[
    Graphs, option("--cuda-graphs", panel=MODEL, help="auto: replay ticks as CUDA graphs, on such a GPU.")
]
CpuOffload = Annotated[
    bool, option("--cpu-offload", panel=MODEL, help="Keep the large layers in host memory, for a small GPU (slow).")
]
BatchInvariant = Annotated[
    bool, option("--batch-invariant", panel=MODEL, help="On CUDA: the same bits for any --slots, more slowly.")
]

VoiceFolder = Annotated[
    Path | None, option("--voice-prompt-dir", panel=PERSONA, help="Folder in which voices are looked up by name.")
]
TextPrompt = Annotated[
    str | None, option("--text-prompt", panel=PERSONA, help="The agent's role in words; may be empty.")
]
TextPromptFile = Annotated[Path | None, option("--text-prompt-file", panel=PERSONA, help="File that holds the role.")]
Role = Annotated[
    str | None,
    option("--role", panel=PERSONA, show_default="teacher, without a text prompt", help="A role of the library."),
]
Field = Annotated[
    list[str] | None, option("--field", panel=PERSONA, metavar="KEY=VALUE", help="Value of a role's field; repeatable.")
]

TempText = Annotated[float, option("--temp-text", panel=SAMPLING, min=0, help="Temperature of the text; 0 is greedy.")]
TempAudio = Annotated[
    float, option("--temp-audio", panel=SAMPLING, min=0, help="Temperature of the audio; 0 is greedy.")
]
TopKText = Annotated[int, option("--topk-text", panel=SAMPLING, min=0, help="Text tokens to draw from; 0: all.")]
TopKAudio = Annotated[int, option("--topk-audio", panel=SAMPLING, min=0, help="Audio tokens to draw from; 0: all.")]
TopPText = Annotated[
    float, option("--topp-text", panel=SAMPLING, help="Of the text's top k, the share to draw from; 1: all.")
]
RepetitionPenalty = Annotated[
    float, option("--repetition-penalty", panel=SAMPLING, help="Over 1: text that was said is less likely. 1: off.")
]
NoRepeatNgram = Annotated[
    int, option("--no-repeat-ngram", panel=SAMPLING, help="No N text tokens are said twice. 0: off.")
]
Greedy = Annotated[bool, option("--greedy", panel=SAMPLING, help="Always take the likeliest token.")]

Align = Annotated[
    Alignment,
    option("--align", panel=OUTPUT, help="reference: a frame late, as moshi.offline; model: in the agent's own time."),
]
Subtype = Annotated[
    str, option("--output-subtype", panel=OUTPUT, help="PCM_16, PCM_24, FLOAT, ULAW, ALAW, as libsndfile has it.")
]
Rate = Annotated[int, option("--output-rate", panel=OUTPUT, help="Samples a second of the output.")]
Formats = Annotated[
    str, option("--format", panel=OUTPUT, help="Also write, comma-separated: srt, vtt, ctm, textgrid, frames.")
]
SaveTokens = Annotated[
    bool, option("--save-tokens", panel=OUTPUT, help="Also write the tokens, as <stem>.tokens.safetensors.")
]
LongAudioOption = Annotated[
    LongAudio, option("--long-audio", panel=INPUT, help="A call longer than the context: warn, or fail it.")
]
