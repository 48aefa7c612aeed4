"""From what the user names - a directory, a manifest, standard input - to the items of a run, each with its id.

An id names an item's outputs and, with the run's seed, decides its noise. It follows from the item alone.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Protocol

from personaplex.core.corpus.bench import Sample, bench_samples
from personaplex.core.corpus.items import Item, PassedOver, Refused, Source
from personaplex.core.corpus.listing import read_manifest
from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.naming import id_fault
from personaplex.core.corpus.raw import STDIN
from personaplex.core.corpus.stored import read_stored
from personaplex.core.corpus.walking import named, text, walk
from personaplex.core.errors import InputError, UsageError
from personaplex.core.faults import shown
from personaplex.core.storage.urls import Stored, is_url

_SEED_BITS = 53  # what every JSON reader keeps exactly


def read_source(source: str, pattern: str | None, output: Path | None, output_stored: Stored | None = None) -> Source:
    """What is in a directory (walked, in sorted order; not what lies in `output`), a manifest or standard input.

    Both may be URLs; `output_stored` is that of the outputs.

    A row or a name at fault is refused alone. Raises UsageError for a source that can't be read or makes no sense as
    a whole, and for ids that clash; StorageError for one in a store that can't be read.
    """
    path = Path(source)
    if is_url(source):
        walked = partial(_walked, pattern=pattern, output=None)
        found = read_stored(Stored(source), output_stored, walked, globbed=pattern is not None)
    elif source != STDIN and path.is_dir():
        if output is not None and not pattern and path.resolve() == output.resolve():
            mend = "choose another folder with -o, or the inputs with --glob"
            raise UsageError(f"{source}: the outputs would lie among the inputs and be taken for some", mend)
        found = _walked(source, pattern, output)
    elif pattern is not None:
        raise UsageError("--glob chooses files in a directory", "leave it out for a manifest")
    else:
        found = read_manifest(source)
    _check_unique(found.items)
    return found


def _walked(source: str, pattern: str | None, output: Path | None) -> Source:
    folder = Path(source)
    try:
        walked = walk(folder, output, _matching(folder, pattern) if pattern else None)
    except OSError as error:
        mend = "make the folder readable, or choose files with a manifest"
        raise UsageError(f"{error.filename}: cannot be walked: {error.strerror}", mend) from error
    if not walked.files and not walked.unreadable:
        raise _no_files(source, pattern, walked.passed_over)
    found = Source(passed_over=walked.passed_over)
    samples = {} if pattern else bench_samples(folder, walked.files)
    for place, relative in enumerate(walked.files):
        if samples and relative not in samples:
            found.passed_over.files[text(relative.suffix.lower())] += 1
            continue
        item = _file_item(folder, relative, place)
        if samples:
            item = replace(item, id=samples[relative].id)
            try:
                item = _with_annotations(item, samples[relative])
            except InputError as error:
                found.refused.append(Refused.of(item, error))
                continue
        fault = id_fault(item.id)
        if fault is None:
            found.items.append(item)
        else:
            found.refused.append(Refused.of(item, InputError(f"{shown(item.where)}: {fault[0]}", "rename the file")))
    for relative, failure in walked.unreadable:
        what = f"{shown(named(folder / relative))}: cannot be walked: {failure.strerror}"
        mend = "make the folder readable, or move it away"
        name = named(relative)
        found.refused.append(Refused(name, len(walked.files), name, {}, InputError(what, mend)))
    return found


def _no_files(source: str, pattern: str | None, passed_over: PassedOver) -> UsageError:
    what = f"{source}: holds no audio files" + (f" that match {pattern}" if pattern else "")
    mend = "name a folder of recordings"
    if passed_over.likely:
        mend = "convert the recordings to WAV or FLAC, or choose the files with --glob"
    elif passed_over.links:
        mend = "links to folders are not followed: name the folder that holds the recordings"
    elif passed_over.runs or passed_over.answers:
        mend = "list answers in a manifest to run them as calls"
    return UsageError("; ".join((what, *passed_over.lines())), mend)


def _matching(folder: Path, pattern: str) -> set[Path]:
    try:
        return set(folder.rglob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise UsageError(f'--glob "{pattern}" makes no sense ({error})', "use one such as '*.flac'") from error


def _file_item(folder: Path, relative: Path, place: int) -> Item:
    source, path = named(relative), folder / relative
    identity = str(PurePosixPath(source).with_suffix(""))
    return Item(identity, path, source, str(path), folder, Row(audio_filepath=source), place=place)


def _with_annotations(item: Item, sample: Sample) -> Item:
    """The item of a benchmark's sample, with what is carried through of it; raises InputError."""
    return replace(item, row=Row(audio_filepath=item.source, **sample.own(item.folder)))


def _check_unique(items: Sequence[Item]) -> None:
    counts = Counter(item.id for item in items)
    twice = [item for item in items if counts[item.id] > 1]
    if twice:
        clash = ", ".join(shown(item.where) for item in twice if item.id == twice[0].id)
        what = f'the id "{shown(twice[0].id)}" stands for several items: {clash}'
        raise UsageError(what, "give each an id of its own")


@dataclass(frozen=True)
class Product:
    """What each item is repeated over; an empty tuple leaves it as it is."""

    voices: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


def expand(items: Sequence[Item], product: Product) -> list[Item]:
    """Every item with every voice, role and seed of the product; what was chosen is appended to the id."""
    made = list(items)
    if product.voices:
        made = [replace(_with(item, _label(voice)), voice=voice) for item in made for voice in product.voices]
    if product.roles:
        cleared = {"text_prompt": None, "text_prompt_file": None}
        made = [_with(item, role, role=role, **cleared) for item in made for role in product.roles]
    if product.seeds:
        made = [replace(_with(item, f"seed{seed}"), seed=seed) for item in made for seed in product.seeds]
    _check_unique(made)
    return made


def _label(voice: str) -> str:
    return PurePosixPath(Path(voice).as_posix()).stem


def _with(item: Item, label: str, **changes: str | None) -> Item:
    return replace(item, id=f"{item.id}.{label}", row=item.row.model_copy(update=changes))


def item_seed(item: Item, run_seed: int) -> int:
    """The item's own seed, or one derived from the run's and the item's id by SHA-256."""
    own = item.seed if item.seed is not None else item.row.seed
    return derived_seed(run_seed, item.id) if own is None else own


def derived_seed(run_seed: int, name: str) -> int:
    """The seed of what is called `name` in a run."""
    digest = hashlib.sha256(f"{run_seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


class Named(Protocol):
    """What has an id."""

    @property
    def id(self) -> str:
        """It alone decides where a share ends and the next begins."""


def in_shard(item: Named, index: int, count: int) -> bool:
    """Whether shard `index` of 1 to `count` takes the item: its id alone decides."""
    digest = hashlib.sha256(item.id.encode()).digest()
    return int.from_bytes(digest[8:16], "big") % count == index - 1
