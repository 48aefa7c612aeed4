"""`personaplex prompts`: the library of roles, and what a prompt takes of the model's context."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import notice, result
from personaplex.core.config import FRAME_RATE
from personaplex.core.errors import UsageError
from personaplex.core.files import check_utf8, read_text
from personaplex.prompts import library

if TYPE_CHECKING:
    pass

app = typer.Typer(
    help="Roles: which there are, filled in, and counted.",
    epilog="Example: personaplex prompts list",
    no_args_is_help=True,
)

FIRST_WORDS = 60

Name = Annotated[str, typer.Argument(help="A role of the library.")]


@app.callback()
def prompts() -> None:
    """Roles: which there are, filled in, and counted."""


@app.command("list", epilog="Example: personaplex prompts list --json")
def list_roles(as_json: o.AsJson = False) -> None:
    """List the roles: name, fields and first words."""
    roles = {name: library.text(name) for name in library.names()}
    if as_json:
        rows = [{"name": name, "fields": library.fields(text), "text": text} for name, text in roles.items()]
        result(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(map(len, roles))
    for name, text in roles.items():
        fields = ", ".join(library.fields(text)) or "-"
        result(f"{name:<{width}}  {fields}  “{shorten(text, FIRST_WORDS, placeholder=' …')}”")


@app.command("show", epilog="Example: personaplex prompts show clinic")
def show(name: Name, as_json: o.AsJson = False) -> None:
    """Show a role's text, its fields in braces."""
    text = library.text(name)
    document = {"name": name, "fields": library.fields(text), "text": text}
    result(json.dumps(document, indent=2, ensure_ascii=False) if as_json else text)


@app.command("render", epilog="Example: personaplex prompts render teacher")
def render(name: Name, field: o.Field = None, as_json: o.AsJson = False) -> None:
    """Show a role with its fields filled in.

    A field without a value is an error; a value without a field is a warning here, and an error in offline and batch.
    """
    text, unused = _filled(name, field or [])
    document = {"name": name, "text": text, "unused": unused}
    result(json.dumps(document, indent=2, ensure_ascii=False) if as_json else text)


def _filled(name: str, given: Sequence[str]) -> tuple[str, list[str]]:
    """The role's text, and the fields given that it lacks, which are told; raises UsageError."""
    known, values = library.fields(library.text(name)), {}
    for field in given:
        check_utf8(field, "a --field")
        key, value = o.key_and_value(field)
        values[key] = value
    unused = [key for key in values if key not in known]
    if unused:
        fields = ", ".join(known) or "none"
        notice(f'warning: role "{name}" does not use {", ".join(unused)}; its fields: {fields}')
    return library.render(name, {key: value for key, value in values.items() if key in known}), unused


@dataclass(frozen=True)
class PromptCount:
    """What a prompt takes of the context, in tokens and frames; `voice_frames` is None without a voice.

    `parts` says it in words.
    """

    model: str
    tokens: int
    silence_frames: int
    voice_frames: int | None
    prompt_frames: int
    prompt_seconds: float
    context_frames: int
    left_frames: int
    left_seconds: float
    parts: str


@app.command("count", epilog="Example: personaplex prompts count teacher --model tiny")
def count(
    name: Annotated[str | None, typer.Argument(help="A role of the library.", show_default=False)] = None,
    text: Annotated[str | None, o.option("--text", panel=o.PERSONA, help="A text in place of a role.")] = None,
    file: Annotated[Path | None, o.option("--file", panel=o.PERSONA, help="File that holds the text.")] = None,
    field: o.Field = None,
    voice: Annotated[
        str | None, o.option("--voice", panel=o.PERSONA, help="Count this voice too: a name, or its file.")
    ] = None,
    voice_prompt_dir: o.VoiceFolder = None,
    model: o.ModelName = None,
    as_json: o.AsJson = False,
) -> None:
    """Count a prompt's tokens, its seconds, and what it leaves of the model's context to the call.

    A frame is 80 ms; a token takes one. Of the model only the tokenizer is needed.
    """
    words = _words(name, text, file, field or [])
    counted = _counted(words, voice, voice_prompt_dir, model)
    if as_json:
        figures = asdict(counted)
        del figures["parts"]
        result(json.dumps(figures, indent=2))
        return
    result(f"tokens  {counted.tokens}")
    result(f"prompt  {counted.prompt_frames} frames, {counted.prompt_seconds:.2f} s: {counted.parts}")
    result(f"left    {counted.left_frames} of {counted.context_frames} frames, {counted.left_seconds:.2f} s")


def _counted(words: str, voice: str | None, folder: Path | None, model: str | None) -> PromptCount:
    """The count; raises UsageError for a prompt that leaves nothing to the call, ModelError or VoiceError."""
    from personaplex.core.engine.prompt_length import PromptLength
    from personaplex.core.weights.published import HUB_MODEL
    from personaplex.runs.planning.prompts import tokenizer_of, voice_frames
    from personaplex.voices.here import find_here

    name = model or HUB_MODEL
    tokenizer, config = tokenizer_of(name)
    frames = None if voice is None else voice_frames(find_here(voice, folder), config.lm.dim)
    length = PromptLength(len(tokenizer.prompt_ids(words)), frames)
    length.check(config.lm.context)
    left = config.lm.context - length.frames
    return PromptCount(
        model=name,
        tokens=length.tokens,
        silence_frames=length.silence_frames,
        voice_frames=frames,
        prompt_frames=length.frames,
        prompt_seconds=length.frames / FRAME_RATE,
        context_frames=config.lm.context,
        left_frames=left,
        left_seconds=left / FRAME_RATE,
        parts=length.parts,
    )


def _words(name: str | None, text: str | None, file: Path | None, field: Sequence[str]) -> str:
    """The text to count; raises UsageError."""
    if sum(given is not None for given in (name, text, file)) != 1:
        raise UsageError("count takes a role's NAME, --text or --file, one of them", "see `personaplex prompts list`")
    if name is not None:
        return _filled(name, field)[0]
    if field:
        raise UsageError("--field fills in a role, and none is named", "name the role")
    if file is None:
        check_utf8(text or "", "--text")
        return text or ""
    return read_text(file, "--file")
