"""From the source and the options of a batch to its items, each with a voice, a text, a seed and output paths.

All that can be wrong with them is found here, before any model is loaded.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.answers.leftovers import item_paths
from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.corpus.manifest import CHANNEL
from personaplex.core.corpus.results import RESULTS, RUN
from personaplex.core.corpus.sources import Item, expand, item_seed, read_source
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.prompts.chosen import prompt_text
from personaplex.runs.request import SourceOptions
from personaplex.voices.catalogue import find_local


@dataclass(frozen=True)
class PlannedItem:
    """An item that can be run. `voice` is a path, or a name of the catalogue for `find`."""

    item: Item
    voice: str
    text: str
    seed: int
    channel: str
    paths: OutputPaths


def check_channel(channel: str) -> str:
    """`channel`, if it can name one; raises UsageError."""
    if not re.fullmatch(CHANNEL, channel):
        raise UsageError(f'--channel "{channel}" is unknown', "use mix, left, right, or a number from 0")
    return channel


def plan_items(options: SourceOptions, outputs: OutputOptions) -> list[PlannedItem]:
    """Every item of the source; raises UsageError or VoiceError that name the row or file at fault."""
    check_channel(options.channel)
    items = expand(read_source(options.source, options.pattern, options.output), options.product)
    planned = [_planned(item, options) for item in items]
    owners = _owners(planned, options.output, outputs)
    _check_inputs(planned, options.source, owners)
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
            paths=item_paths(options.output, item.id, options.mix),
        )
    except PersonaplexError as error:
        raise type(error)(f"{item.where}: {error.what}", error.mend) from error


def _voice(item: Item, options: SourceOptions) -> str:
    """A row's voice is looked for beside its manifest first, an option's is not."""
    name = item.voice or item.row.voice_prompt
    if name and not item.voice and (item.folder / name).is_file():
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
    fields = {key.strip(): value for key, value in row.fields.items()}
    return prompt_text(row.text_prompt, file, row.role, fields)


def _owners(planned: Sequence[PlannedItem], folder: Path, outputs: OutputOptions) -> dict[Path, str]:
    """Whose every output is: no two items may write one file, nor one inside another, and none the run's own files."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder} is not a folder", "choose a folder; it is made if need be")
    owners = {folder / name: "the run itself" for name in (RESULTS, RUN)}
    mend = "give one of them another id, or rename the file"
    for item in planned:
        for path in item.paths.all(outputs):
            if path in owners:
                raise UsageError(f"{item.item.where} and {owners[path]} would both write {path}", mend)
            owners[path] = item.item.where
    for item in planned:
        for parent in item.paths.json.relative_to(folder).parents:
            if folder / parent in owners:
                clash = f"{item.item.where} would write into {folder / parent}, a file of {owners[folder / parent]}"
                raise UsageError(clash, mend)
    return owners


def _check_inputs(planned: Sequence[PlannedItem], source: str, owners: Iterable[Path]) -> None:
    """No output may replace an input, a voice or the manifest."""
    outputs = {os.path.realpath(path) for path in owners}
    inputs = {source: source}
    for item in planned:
        inputs |= {os.fspath(item.item.path): item.item.where, item.voice: item.item.where}
    for path, where in inputs.items():
        if os.path.realpath(path) in outputs:
            raise UsageError(f"{where}: an output would replace {path}", "choose another folder with -o")
