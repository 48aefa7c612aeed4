"""`personaplex voices`: the catalogue, what a voice holds, and voice files made from recordings."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, notice, result, summary
from personaplex.core.errors import UsageError
from personaplex.runs.choices import Dtype

if TYPE_CHECKING:
    from personaplex.runs.models.located import ModelOptions
    from personaplex.voices.making import MadeVoice

app = typer.Typer(
    help="Voices: which there are, what one holds, and how to make one.",
    epilog="Example: personaplex voices list",
    no_args_is_help=True,
)

SUFFIX = ".safetensors"
CONSENT = "note: a voice needs its speaker's consent; make none of a person who has not agreed to it"


@app.callback()
def voices() -> None:
    """Voices: which there are, what one holds, and how to make one."""


@app.command("list", epilog="Example: personaplex voices list --json")
def list_voices(voice_prompt_dir: o.VoiceFolder = None, as_json: o.AsJson = False) -> None:
    """List the voices that can be named, and where those lie that are on this machine.

    Those published with PersonaPlex-7B come first, then the recordings that come with the package, then the files in
    --voice-prompt-dir and in PERSONAPLEX_VOICES.
    """
    from dataclasses import asdict

    from personaplex.voices.here import listed_voices

    rows = listed_voices(voice_prompt_dir)
    if as_json:
        result(json.dumps([asdict(row) for row in rows], indent=2, default=str))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        place = row.path or (f"in {row.archive}" if row.archive else "")
        result(f"{row.name:<{width}}  {row.sex or '-':<6}  {row.kind:<9}  {place}".rstrip())


@app.command("show", epilog="Example: personaplex voices show voice.safetensors --json")
def show(
    voice: Annotated[str, typer.Argument(metavar="NAME_OR_FILE", help="A voice's name, or its file.")],
    voice_prompt_dir: o.VoiceFolder = None,
    model: Annotated[
        str | None, o.option("--model", panel=o.MODEL, help="Also tell whether it fits this model.", metavar="MODEL")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Show what a voice holds: its kind, length and width, and the known models that it fits."""
    from personaplex.voices.here import find_here
    from personaplex.voices.loading import is_stored

    path = find_here(voice, voice_prompt_dir)
    about = _stored_facts(path, model) if is_stored(path) else _recording_facts(path, model)
    facts = {"name": path.stem, "path": str(path), **about}
    if as_json:
        result(json.dumps(facts, indent=2))
        return
    metadata: dict[str, str] = facts.pop("metadata", {})
    facts["fits"] = ", ".join(facts["fits"]) or "no known model"
    for key, value in facts.items():
        result(f"{key:<11}  {value}")
    for key, value in metadata.items():
        result(f"metadata     {key}: {value}")


def _stored_facts(path: Path, model: str | None) -> dict[str, Any]:
    from personaplex.core.config import FRAME_RATE
    from personaplex.voices.files import read_metadata, read_voice

    stored = read_voice(path)
    frames, dim = len(stored.embeddings) + 1, stored.embeddings.shape[1]
    return {
        "kind": "stored",
        "frames": frames,
        "seconds": frames / FRAME_RATE,
        "dim": dim,
        "dtype": str(stored.embeddings.dtype).removeprefix("torch."),
        "sha256": stored.sha256,
        "fits": [name for name, width in _widths(model).items() if width == dim],
        "metadata": dict(sorted(read_metadata(path).items())),
    }


def _recording_facts(path: Path, model: str | None) -> dict[str, Any]:
    from personaplex.core.audio.reading import frame_count
    from personaplex.voices.loading import normalise, read_recording

    recording = read_recording(path)
    return {
        "kind": "recording",
        "frames": frame_count(len(normalise(recording))),
        "seconds": round(recording.info.duration, 3),
        "sample_rate": recording.info.sample_rate,
        "channels": recording.info.channels,
        "sha256": recording.info.sha256,
        "fits": list(_widths(model)),
    }


def _widths(model: str | None) -> dict[str, int]:
    """The width of the published model, of the packaged ones and of the chosen one, by name."""
    from personaplex.core.weights.published import HUB_MODEL
    from personaplex.runs.models.known import known_model
    from personaplex.samples.catalog import model_names

    names = dict.fromkeys([HUB_MODEL, *model_names(), *([model] if model else [])])
    return {name: known_model(name).config.lm.dim for name in names}


@app.command("create", epilog="Example: personaplex voices create anna.wav -o anna --model tiny")
def create(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A recording in any audio format, or a .pt voice to convert.")
    ],
    output: Annotated[
        str,
        o.option("--output", "-o", panel=o.OUTPUT, metavar="NAME", help="Its name or path, .safetensors if not said."),
    ],
    force: Annotated[bool, o.option("--force", panel=o.OUTPUT, help="Replace the file if it is there.")] = False,
    voice_prompt_dir: Annotated[
        Path | None,
        o.option("--voice-prompt-dir", panel=o.OUTPUT, help="Folder for a voice whose name is without one."),
    ] = None,
    model: o.ModelName = None,
    revision: o.Revision = None,
    device: o.Device = "auto",
    dtype: o.DtypeName = Dtype.auto,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
) -> None:
    """Make a voice file of a recording for one model, so that calls need not encode it again.

    3 to 20 s of one speaker are useful; it is mixed to mono and brought to -24 LUFS.

    The voice fits that model alone, and gives the same answers as the recording.

    A bare NAME goes to --voice-prompt-dir, else to the folder PERSONAPLEX_VOICES, else to the current one.

    A .pt is converted as it is; its width is checked only if --model is given.
    """
    configure(log_level, quiet)
    if source.suffix.lower() == SUFFIX:
        raise UsageError(f"{source} is a {SUFFIX} voice already", "give a recording or a .pt voice")
    target = _target(output, voice_prompt_dir, force)
    from personaplex.core.weights.model import Overrides
    from personaplex.core.weights.published import HUB_MODEL
    from personaplex.runs.models.located import ModelOptions
    from personaplex.voices.making import write_voice

    options = ModelOptions(model or HUB_MODEL, revision, Overrides(), device, dtype, cpu_offload=False)
    write_voice(_made(source, model, options), target)
    summary(str(target))


def _made(source: Path, model: str | None, options: "ModelOptions") -> "MadeVoice":
    """The voice of a recording or of a `.pt`; raises PersonaplexError."""
    from personaplex.runs.models.known import known_model
    from personaplex.runs.models.located import locate_model
    from personaplex.voices.loading import is_stored, normalise, read_recording
    from personaplex.voices.making import convert_voice, make_voice
    from personaplex.voices.quality import doubts

    if is_stored(source):
        return convert_voice(source, known_model(model).config.lm.dim if model else None)
    recording = read_recording(source)
    normalise(recording)  # what has no loudness is refused before a model is loaded
    notice(CONSENT)
    for doubt in doubts(recording):
        log.warning("voice %s: %s", source, doubt)
    return make_voice(recording, locate_model(options).load())


def _target(output: str, folder: Path | None, force: bool) -> Path:
    """The file to write; raises UsageError for one that is there, that no folder is there for, or of another kind."""
    from personaplex.voices.catalogue import SUFFIXES, folders

    path = Path(output)
    if not path.name:
        raise UsageError(f"-o {output!r} names no file", "give the voice a name")
    if path.suffix.lower() in SUFFIXES and path.suffix != SUFFIX:
        raise UsageError(f"-o {output}: a voice is written as {SUFFIX}", f"call it {path.stem}")
    if path.suffix != SUFFIX:
        path = path.with_name(path.name + SUFFIX)
    if output == Path(output).name:
        path = next(iter(folders(folder)), Path()) / path
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", "create it first")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already", "choose another name, or replace it with --force")
    return path
