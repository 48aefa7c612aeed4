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

from personaplex.core.errors import UsageError
from personaplex.core.manifest import Row, read_rows

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
    """One call of a run. `source` is its input as the user wrote it, `where` says which row or file it came from."""

    id: str
    path: Path
    source: str
    where: str
    folder: Path
    row: Row = field(repr=False)
    seed: int | None = None


def read_source(source: str, pattern: str | None, output: Path) -> list[Item]:
    """The items of a directory (walked, in sorted order; not what lies in `output`), a manifest or standard input.

    Raises UsageError for a source that can't be read, bad rows and ids that clash or can't name a file.
    """
    path = Path(source)
    if source != STDIN and path.is_dir():
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
    items = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and not _same(Path(where, name), output)]
        for name in names:
            relative = PurePosixPath(Path(where, name).relative_to(folder).as_posix())
            chosen = relative.match(pattern) if pattern else relative.suffix.lower() in SUFFIXES
            if chosen and not name.startswith("."):
                items.append(_walked(folder, relative))
    return sorted(items, key=lambda item: PurePosixPath(item.source).parts)


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve()


def _walked(folder: Path, relative: PurePosixPath) -> Item:
    source = os.fsencode(str(relative)).decode(errors="replace")
    path = folder / relative
    identity = str(PurePosixPath(source).with_suffix(""))
    return Item(identity, path, source, str(path), folder, Row(audio_filepath=source))


def _from_rows(source: str) -> list[Item]:
    if source == STDIN:
        text, kind, name, folder = sys.stdin.read(), "jsonl", "standard input", Path()
    else:
        path = Path(source)
        kind, name, folder = path.suffix.lower().removeprefix("."), source, path.parent
        if kind not in {"jsonl", "json", "csv"}:
            raise UsageError(f"{source}: not a directory, a .jsonl or a .csv", "name one of these, or - for stdin")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f"{source}: {error.strerror}", "check the path") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{source}: not UTF-8 text", "save the manifest as UTF-8") from error
    rows = read_rows(text, "csv" if kind == "csv" else "jsonl", name)
    paths = [folder / row.audio_filepath for row in rows]
    return [
        Item(row.id or identity, path, row.audio_filepath, f"{name}, item {number}", folder, row)
        for number, (row, path, identity) in enumerate(zip(rows, paths, _default_ids(rows), strict=True), start=1)
    ]


def _default_ids(rows: Sequence[Row]) -> list[str]:
    """The inputs' relative paths without suffix; absolute ones count from the folder that all of those share."""
    outside = [row.audio_filepath for row in rows if _leads_out(row.audio_filepath)]
    shared = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in outside]) if outside else ""
    ids = []
    for row in rows:
        path = row.audio_filepath
        inside = os.path.relpath(os.path.abspath(path), shared) if _leads_out(path) else os.path.normpath(path)
        stem = str(PurePosixPath(Path(inside).as_posix()).with_suffix(""))
        ids.append(f"{stem}@{row.offset:g}s" if row.offset else stem)
    return ids


def _leads_out(path: str) -> bool:
    return os.path.isabs(path) or os.path.normpath(path).startswith("..")


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
        made = [_with(item, _label(voice), voice_prompt=voice) for item in made for voice in product.voices]
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
