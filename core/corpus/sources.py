"""From what the user names - a directory, a manifest, standard input - to the items of a run, each with its id.

An id names an item's outputs and, with the run's seed, decides its noise. It follows from the item alone.
"""

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from personaplex.core.corpus.manifest import Row, read_rows
from personaplex.core.errors import UsageError

STDIN = "-"
SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("wav", "wave", "flac", "ogg", "oga", "opus", "mp3", "aiff", "aif", "aifc"),
        *("au", "snd", "sph", "nist", "w64", "rf64", "caf", "voc"),
    )
)
_SEED_BITS = 53  # what every JSON reader keeps exactly


@dataclass(frozen=True)
class Item:
    """One call of a run.

    `source` is its input as the user wrote it, `where` says which row or file it came from, and the row's paths are
    relative to `folder`. `voice` and `seed` are chosen by the run and go before the row's.
    """

    id: str
    path: Path
    source: str
    where: str
    folder: Path
    row: Row = field(repr=False)
    voice: str | None = None
    seed: int | None = None


def read_source(source: str, pattern: str | None, output: Path) -> list[Item]:
    """The items of a directory (walked, in sorted order; not what lies in `output`), a manifest or standard input.

    Raises UsageError for a source that can't be read, bad rows and ids that clash or can't name a file.
    """
    path = Path(source)
    if source != STDIN and path.is_dir():
        if not pattern and _same(path, output):
            mend = "choose another folder with -o, or the inputs with --glob"
            raise UsageError(f"{source}: the outputs would lie among the inputs and be taken for some", mend)
        items = _walk(path, pattern, output)
        if not items:
            pattern_too = f" that match {pattern}" if pattern else ""
            raise UsageError(f"{source}: holds no audio files{pattern_too}", "name a folder of recordings")
    elif pattern is not None:
        raise UsageError("--glob chooses files in a directory", "leave it out for a manifest")
    else:
        items = _from_rows(source)
    _check_ids(items)
    return items


def _walk(folder: Path, pattern: str | None, output: Path) -> list[Item]:
    matching = _matching(folder, pattern) if pattern else None
    items = []
    for where, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".") and not _same(Path(where, name), output)]
        for name in names:
            path = Path(where, name)
            chosen = path.suffix.lower() in SUFFIXES if matching is None else path in matching
            if chosen and not name.startswith("."):
                items.append(_walked(folder, PurePosixPath(path.relative_to(folder).as_posix())))
    return sorted(items, key=lambda item: PurePosixPath(item.source).parts)


def _matching(folder: Path, pattern: str) -> set[Path]:
    try:
        return set(folder.rglob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise UsageError(f'--glob "{pattern}" makes no sense ({error})', "use one such as '*.flac'") from error


def _unreadable(error: OSError) -> None:
    mend = "make the folder readable, or choose files with a manifest"
    raise UsageError(f"{error.filename}: cannot be walked: {error.strerror}", mend) from error


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve()


def _walked(folder: Path, relative: PurePosixPath) -> Item:
    source = os.fsencode(str(relative)).decode(errors="replace")
    path = folder / relative
    identity = str(PurePosixPath(source).with_suffix(""))
    return Item(identity, path, source, str(path), folder, Row(audio_filepath=source))


def _from_rows(source: str) -> list[Item]:
    path = Path(source)
    kind = "jsonl" if source == STDIN else path.suffix.lower().removeprefix(".")
    if kind not in {"jsonl", "json", "csv"}:
        raise UsageError(f"{source}: not a directory, a .jsonl or a .csv", "name one of these, or - for stdin")
    name, folder = ("standard input", Path()) if source == STDIN else (source, path.parent)
    try:
        content = sys.stdin.buffer.read() if source == STDIN else path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text", "save the manifest as UTF-8") from error
    return [_listed(row, folder, f"{name}, row {number}") for number, row in read_rows(text, kind, name)]


def _listed(row: Row, folder: Path, where: str) -> Item:
    """A row's item. Without an id it has its input's path below `folder`, or the whole path of one that lies elsewhere.

    The part of a long recording is told by where it starts.
    """
    base, path = (Path(os.path.abspath(path)) for path in (folder, folder / row.audio_filepath))
    inside = path.relative_to(base if path.is_relative_to(base) else path.anchor)
    identity = os.path.splitext(inside.as_posix())[0] + (f"@{row.offset:.12g}s" if row.offset else "")
    return Item(row.id or identity, folder / row.audio_filepath, row.audio_filepath, where, folder, row)


def _check_ids(items: Sequence[Item]) -> None:
    for item in items:
        parts = item.id.split("/")
        bad = any(part in {"", ".", ".."} or part.startswith(".") for part in parts)
        if bad or "\\" in item.id or not item.id.isprintable() or len(os.fsencode(parts[-1])) > 200:
            mend = "use a short relative path of printable characters, no part of it hidden"
            raise UsageError(f'{item.where}: the id "{item.id}" can\'t name output files', mend)
    counts = Counter(item.id for item in items)
    twice = [item for item in items if counts[item.id] > 1]
    if twice:
        clash = ", ".join(item.where for item in twice if item.id == twice[0].id)
        raise UsageError(f'the id "{twice[0].id}" stands for several items: {clash}', "give each an id of its own")


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
    _check_ids(made)
    return made


def _label(voice: str) -> str:
    return PurePosixPath(Path(voice).as_posix()).stem


def _with(item: Item, label: str, **changes: str | None) -> Item:
    return replace(item, id=f"{item.id}.{label}", row=item.row.model_copy(update=changes))


def item_seed(item: Item, run_seed: int) -> int:
    """The item's own seed, or one derived from the run's and the item's id by SHA-256."""
    own = item.seed if item.seed is not None else item.row.seed
    if own is not None:
        return own
    digest = hashlib.sha256(f"{run_seed}:{item.id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


def in_shard(item: Item, index: int, count: int) -> bool:
    """Whether shard `index` of 1 to `count` takes the item: its id alone decides."""
    digest = hashlib.sha256(item.id.encode()).digest()
    return int.from_bytes(digest[8:16], "big") % count == index - 1
