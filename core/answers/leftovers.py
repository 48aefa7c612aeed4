"""An item's files in the output folder, whatever its options, and clearing away what killed runs left of them."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from personaplex.core.answers.exports import EXPORTERS
from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.answers.ownership import leftovers

_EVERYTHING = OutputOptions(formats=tuple(EXPORTERS), tokens=True)


def item_paths(folder: Path, name: str, mix: bool) -> OutputPaths:
    """Where the files of the item `name` go."""
    return OutputPaths(folder / f"{name}.wav", folder / f"{name}.json", folder / f"{name}.mix.wav" if mix else None)


def left_behind(items: Iterable[OutputPaths]) -> list[Path]:
    """What killed runs left of items: temporary files, and those that had their place before their transcript had."""
    return _left_of(path for paths in items for path in item_files(paths))


def _left_of(outputs: Iterable[Path]) -> list[Path]:
    parts, orphans = leftovers(outputs)
    return [*orphans, *parts]  # in this order: a part may tell what the others are


def sweep(items: Iterable[OutputPaths]) -> None:
    """Remove what killed runs left of items; to be called before anything is written."""
    sweep_outputs(path for paths in items for path in item_files(paths))


def sweep_outputs(outputs: Iterable[Path]) -> None:
    """Remove what killed runs left of some files; to be called before anything is written."""
    for path in _left_of(outputs):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def item_files(paths: OutputPaths) -> list[Path]:
    """All files that an item can have, whatever the options."""
    return replace(paths, mix=paths.wav.with_name(f"{paths.wav.stem}.mix.wav")).all(_EVERYTHING)
