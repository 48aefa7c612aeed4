"""Whose every output of a batch is, so that no two items write to one file."""

import os
from collections.abc import Sequence
from pathlib import Path

from personaplex.core.answers.outputs import OutputOptions
from personaplex.core.corpus.results import RESULTS, RUN
from personaplex.core.errors import InputError, UsageError
from personaplex.core.faults import shown
from personaplex.core.storage.urls import Stored, is_url, without_secrets
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import SourceOptions


def refuse_own_files(json: Path, folder: Path) -> None:
    """Raise InputError for an item with the transcript `json` that the run's own files are in the way of."""
    own = {folder / name for name in (RESULTS, RUN)}
    if json in own:
        mend = "rename the recording, or give its row another id"
        raise InputError(f"its transcript would be {json}, a file of the run itself", mend)
    for parent in json.parents:
        if parent in own:
            raise InputError(f"its outputs would lie in {parent}, a file of the run itself", "give it another id")


def check_owners(planned: Sequence[PlannedItem], folder: Path, outputs: OutputOptions) -> None:
    """Raise UsageError for two items that would write to one file, or one inside another."""
    owners: dict[Path, str] = {}
    mend = "give one of them another id, or rename the file"
    for item in planned:
        for path in item.paths.all(outputs):
            if path in owners:
                where = f"{shown(item.item.where)} and {shown(owners[path])}"
                raise UsageError(f"{where} would both write {shown(str(path))}", mend)
            owners[path] = item.item.where
    for item in planned:
        for parent in item.paths.json.relative_to(folder).parents:
            owner = owners.get(folder / parent)
            if owner is not None:
                clash = f"{item.item.where} would write into {folder / parent}, a file of {owner}"
                raise UsageError(shown(clash), mend)


def check_inputs(planned: Sequence[PlannedItem], options: SourceOptions, outputs: OutputOptions) -> None:
    """Raise UsageError for an output that would replace an input, a voice or the manifest."""
    folder, outlet = options.output, options.outlet
    made = [*(path for item in planned for path in item.paths.all(outputs)), folder / RESULTS, folder / RUN]
    owned = {os.path.realpath(path) for path in made}
    stored = set() if outlet is None else {outlet.stored(path).url for path in made}
    inputs = {options.source: options.source}
    for item in planned:
        audio = item.item.audio
        inputs[audio.url if isinstance(audio, Stored) else os.fspath(item.item.path)] = item.item.where
        inputs[item.voice] = item.item.where
    for path, where in inputs.items():
        if path in stored if is_url(path) else os.path.realpath(path) in owned:
            told = shown(without_secrets(f"{where}: an output would replace {path}"))
            raise UsageError(told, "choose another folder with -o")
