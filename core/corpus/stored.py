"""A folder or a manifest in a store as the source of a run."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from personaplex.core.audio.formats.suffixes import RECORDING_SUFFIXES
from personaplex.core.corpus.bench import INPUT
from personaplex.core.corpus.items import Item, Refused, Source
from personaplex.core.corpus.listing import is_manifest, read_stored_manifest
from personaplex.core.corpus.results import RUN
from personaplex.core.corpus.walking import SIDES
from personaplex.core.errors import UsageError
from personaplex.core.storage.stand_in import StandIn
from personaplex.core.storage.urls import Stored

Walked = Callable[[str], Source]


def read_stored(root: Stored, output: Stored | None, walked: Walked, *, globbed: bool) -> Source:
    """What lies in a store: a manifest, or a folder, which `walked` reads as it reads one of this machine.

    What lies in `output` is left out. Raises UsageError and StorageError.
    """
    if is_manifest(root):
        if globbed:
            raise UsageError("--glob chooses files in a directory", "leave it out for a manifest")
        return read_stored_manifest(root)
    inside = None if output is None else _inside(root, output)
    if inside == "" and not globbed:
        mend = "choose another folder with -o, or the inputs with --glob"
        raise UsageError(f"{root}: the outputs would lie among the inputs and be taken for some", mend)
    stand_in = StandIn(root)
    stand_in.list(leave_out=inside or None)
    if not stand_in.objects:
        raise UsageError(f"{root}: holds nothing", "check the address, and that you may list what it holds")
    with stand_in.told():
        stand_in.fetch(_told_by(set(stand_in.objects)))
        found = walked(str(stand_in.folder))
    warnings = [f"{root}: {len(stand_in.odd)} objects passed over, whose names can be none of a file"]
    return Source(
        [_item(item, stand_in) for item in found.items],
        [_refused(one, stand_in) for one in found.refused],
        found.passed_over,
        [*found.warnings, *(warnings if stand_in.odd else ())],
    )


def _inside(root: Stored, output: Stored) -> str | None:
    """The folder `output` from `root` on, empty for the same; None for one that lies elsewhere."""
    if output.scheme != root.scheme or not output.path.is_relative_to(root.path):
        return None
    inside = output.path.relative_to(root.path)
    return "" if inside == PurePosixPath() else inside.as_posix()


def _told_by(objects: set[Path]) -> Iterator[Path]:
    """The JSON files that tell what is a recording, what an answer, and what a benchmark's sample."""
    stems = {
        path.parent / path.stem.removesuffix(side)
        for path in objects
        if path.suffix.lower() in RECORDING_SUFFIXES
        for side in ("", *SIDES)
    }
    for path in objects:
        if path.suffix == ".json" and (
            path.name == RUN or path.with_suffix("") in stems or path.with_name(INPUT) in objects
        ):
            yield path


def _item(item: Item, stand_in: StandIn) -> Item:
    stored = stand_in.stored(item.path)
    return replace(item, path=Path(item.source), where=str(stored), folder=Path(), stored=stored)


def _refused(refused: Refused, stand_in: StandIn) -> Refused:
    return replace(refused, error=stand_in.renamed(refused.error))
