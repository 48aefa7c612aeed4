"""An item's files in the output folder, whatever its options, and clearing away what earlier runs left of them."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from personaplex.core.answers.exports import EXPORTERS
from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.answers.resume import read_document
from personaplex.core.answers.transcript import SCHEMA
from personaplex.core.files import remove_stale_parts

_EVERYTHING = OutputOptions(formats=tuple(EXPORTERS), tokens=True)


def item_paths(folder: Path, name: str, mix: bool) -> OutputPaths:
    """Where the files of the item `name` go."""
    return OutputPaths(folder / f"{name}.wav", folder / f"{name}.json", folder / f"{name}.mix.wav" if mix else None)


def discard(paths: OutputPaths) -> None:
    """Remove another run's outputs of an item, if there is a transcript: the JSON first, with which it was done.

    So no file of theirs can be taken for one of the new transcript's. What can't be removed is left to the writer.
    """
    document = read_document(paths.json)
    if document is not None and document.get("schema") == SCHEMA:
        for path in reversed(_every(paths)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def sweep(items: Iterable[OutputPaths]) -> None:
    """Remove the temporary files that killed runs left of items; to be called before anything is written."""
    remove_stale_parts(path for paths in items for path in _every(paths))


def _every(paths: OutputPaths) -> list[Path]:
    return replace(paths, mix=paths.wav.with_name(f"{paths.wav.stem}.mix.wav")).all(_EVERYTHING)
