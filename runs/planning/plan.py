"""From the source and the options of a batch to its items, each with a voice, a text, a seed and output paths.

All that can be wrong with them is found here, before any model is loaded.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from personaplex.core.answers.leftovers import item_paths
from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.corpus.items import Item, Refused, Source
from personaplex.core.corpus.manifest import CHANNEL
from personaplex.core.corpus.naming import id_fault
from personaplex.core.corpus.sources import expand, item_seed, read_source
from personaplex.core.errors import InputError, PersonaplexError, UsageError, VoiceError
from personaplex.core.faults import shown
from personaplex.prompts import library
from personaplex.prompts.chosen import prompt_text
from personaplex.runs.models.located import LocatedModel
from personaplex.runs.planning.owners import check_inputs, check_owners, refuse_own_files
from personaplex.runs.planning.planned import Planned, PlannedItem
from personaplex.runs.planning.request import Defaults, SourceOptions
from personaplex.voices.catalogue import find, find_local


def check_channel(channel: str) -> str:
    """`channel`, if it can name one; raises UsageError."""
    if not re.fullmatch(CHANNEL, channel):
        raise UsageError(f'--channel "{channel}" is unknown', "use mix, left, right, or a number from 0")
    return channel


def plan_items(options: SourceOptions, outputs: OutputOptions) -> Planned:
    """Every item of the source; a row or file at fault is refused alone.

    Raises UsageError or VoiceError for options that make no sense, for items that would write to the same file, and
    where nothing can be run.
    """
    check_defaults(options)
    for voice in options.product.voices:
        find_local(voice, options.voice_folder)
    for role in options.product.roles:
        library.text(role)
    if options.output.exists() and not options.output.is_dir():
        raise UsageError(f"-o {options.output} is not a folder", "choose a folder; it is made if need be")
    stored = None if options.outlet is None else options.outlet.root
    source = read_source(options.source, options.pattern, options.output, stored)

    def paths(item: Item) -> OutputPaths:
        made = item_paths(options.output, item.id, options.mix)
        refuse_own_files(made.json, options.output)
        return made

    planned = plan_source(replace(source, items=expand(source.items, options.product)), options, paths)
    check_owners(planned.items, options.output, outputs)
    check_inputs(planned.items, options, outputs)
    return planned


def plan_source(source: Source, defaults: Defaults, paths: Callable[[Item], OutputPaths]) -> Planned:
    """A source's items, each with all that it is run with and the `paths` of its files; one at fault is refused alone.

    Raises the first fault where nothing can be run.
    """
    planned, refused = [], list(source.refused)
    for item in source.items:
        try:
            planned.append(_planned(item, defaults, paths))
        except PersonaplexError as error:
            refused.append(Refused.of(item, type(error)(f"{shown(item.where)}: {error.what}", error.mend)))
    refused.sort(key=lambda one: one.place)
    if not planned and refused:
        raise _nothing_to_run(refused)
    return Planned(planned, refused, source.passed_over, source.warnings)


def check_defaults(defaults: Defaults) -> None:
    """Raise UsageError or VoiceError for a channel or a voice that can be no call's."""
    check_channel(defaults.channel)
    if defaults.voice:
        find_local(defaults.voice, defaults.voice_folder)


def locate_voices(
    planned: Planned, folder: Path | None, chosen: Collection[str | None], located: LocatedModel
) -> tuple[Planned, dict[str, Path]]:
    """The plan without the items whose voice the model doesn't come with, which are refused; where the others lie.

    `folder` is looked up first. Raises VoiceError for a voice that is `chosen` for all, and where there is none at all.
    """
    paths, missing = find_voices((item.voice for item in planned.items), folder, chosen, located)
    refused = planned.refused + [
        Refused.of(one.item, VoiceError(f"{shown(one.item.where)}: {missing[one.voice].what}", missing[one.voice].mend))
        for one in planned.items
        if one.voice in missing
    ]
    if not paths:
        raise _nothing_to_run(refused)
    items = [item for item in planned.items if item.voice in paths]
    return replace(planned, items=items, refused=sorted(refused, key=lambda one: one.place)), paths


def find_voices(
    names: Iterable[str], folder: Path | None, chosen: Collection[str | None], located: LocatedModel
) -> tuple[dict[str, Path], dict[str, VoiceError]]:
    """Where voices lie, and why others are nowhere; raises VoiceError for such a one that is `chosen` for all."""
    paths: dict[str, Path] = {}
    missing: dict[str, VoiceError] = {}
    for name in dict.fromkeys(names):
        try:
            paths[name] = find(name, folder, located.voices_folder)
        except VoiceError as error:
            if name in chosen:
                raise
            missing[name] = error
    return paths, missing


def _nothing_to_run(refused: Sequence[Refused]) -> PersonaplexError:
    """What stops the whole where nothing of a source can be run: the first fault, and how many more there are."""
    first = refused[0].error
    more = f"; and {len(refused) - 1} more that can't be run" if len(refused) > 1 else ""
    kind = UsageError if isinstance(first, InputError) else type(first)
    return kind(f"{first.what}{more}", first.mend)


def _planned(item: Item, defaults: Defaults, paths: Callable[[Item], OutputPaths]) -> PlannedItem:
    """An item with all it is run with; raises PersonaplexError."""
    fault = id_fault(item.id)  # a product makes ids longer
    if fault is not None:
        raise UsageError(*fault)
    return PlannedItem(
        paths=paths(item),
        item=item,
        voice=_voice(item, defaults),
        text=_text(item, defaults.text),
        seed=item_seed(item, defaults.seed),
        channel=item.row.channel or defaults.channel,
    )


def _voice(item: Item, defaults: Defaults) -> str:
    own = None if item.voice else item.row.voice_prompt
    mend = "give --voice-prompt, or voice_prompt in the row"
    return voice_of(own, item.folder, item.voice or defaults.voice, defaults.voice_folder, mend)


def voice_of(own: str | None, manifest: Path, default: str | None, folder: Path | None, mend: str) -> str:
    """A row's `own` voice, looked for beside its manifest first, or the `default`, which is not.

    A path, or a name of the catalogue. Raises VoiceError, and a UsageError with `mend` for none at all.
    """
    if own and (manifest / own).is_file():
        return str(manifest / own)
    name = own or default
    if name is None:
        raise UsageError("no voice is chosen", mend)
    local = find_local(name, folder)
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
