"""From the source and the options of a batch to its items, each with a voice, a text, a seed and output paths.

All that can be wrong with them is found here, before any model is loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from personaplex.cli.loading import prompt_text
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.outputs import OutputOptions, OutputPaths
from personaplex.core.results import RESULTS, RUN
from personaplex.core.sources import Item, Product, expand, item_seed, read_source
from personaplex.voices.catalogue import find_local


@dataclass(frozen=True)
class SourceOptions:
    """What a batch runs over and what stands in where a row is silent."""

    source: str
    output: Path
    pattern: str | None
    product: Product
    voice: str | None
    voice_folder: Path | None
    text: str
    channel: str
    seed: int
    mix: bool


@dataclass(frozen=True)
class PlannedItem:
    """An item that can be run. `voice` is a path, or a name of the catalogue for `find`."""

    item: Item
    voice: str
    text: str
    seed: int
    channel: str
    paths: OutputPaths


def plan_items(options: SourceOptions, outputs: OutputOptions) -> list[PlannedItem]:
    """Every item of the source; raises UsageError or VoiceError that name the row or file at fault."""
    items = expand(read_source(options.source, options.pattern, options.output), options.product)
    planned = [_planned(item, options) for item in items]
    _check_outputs(planned, options.output, outputs)
    return planned


def _planned(item: Item, options: SourceOptions) -> PlannedItem:
    row = item.row
    try:
        return PlannedItem(
            item=item,
            voice=_voice(item, options),
            text=_text(item, options.text),
            seed=item_seed(item, options.seed),
            channel=row.channel or options.channel,
            paths=_paths(item.id, options.output, options.mix),
        )
    except PersonaplexError as error:
        raise type(error)(f"{item.where}: {error.what}", error.mend) from error


def _voice(item: Item, options: SourceOptions) -> str:
    """A row's voice is looked for beside its manifest first."""
    name = item.row.voice_prompt
    if name is not None and (item.folder / name).is_file():
        return str(item.folder / name)
    name = name or options.voice
    if name is None:
        raise UsageError("no voice is chosen", "give --voice-prompt, or voice_prompt in the row")
    local = find_local(name, options.voice_folder)
    return name if local is None else str(local)


def _text(item: Item, default: str) -> str:
    row = item.row
    if row.text_prompt is None and row.text_prompt_file is None and row.role is None:
        if row.fields:
            raise UsageError("fields fill in a role, and the row names none", "give it a role")
        return default
    file = None if row.text_prompt_file is None else item.folder / row.text_prompt_file
    return prompt_text(row.text_prompt, file, row.role, [f"{key}={value}" for key, value in row.fields.items()])


def _paths(name: str, output: Path, mix: bool) -> OutputPaths:
    return OutputPaths(output / f"{name}.wav", output / f"{name}.json", output / f"{name}.mix.wav" if mix else None)


def _check_outputs(planned: Sequence[PlannedItem], folder: Path, outputs: OutputOptions) -> None:
    """No two items may write one file, and none the run's own files or an input."""
    owner = {folder / name: "the run itself" for name in (RESULTS, RUN)}
    for item in planned:
        for path in item.paths.all(outputs):
            if path in owner:
                mend = "give one of them another id, or rename the file"
                raise UsageError(f"{item.item.where} and {owner[path]} would both write {path}", mend)
            owner[path] = item.item.where
    resolved = {path.resolve() for path in owner}
    for item in planned:
        if item.item.path.resolve() in resolved:
            what = f"{item.item.where}: an output would replace the input {item.item.path}"
            raise UsageError(what, "choose another folder with -o")
