"""From a manifest's rows to items, each with its id; a row at fault is refused alone."""

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from personaplex.core.audio.formats.suffixes import RECORDING_SUFFIXES
from personaplex.core.corpus.items import Item, Refused, Source
from personaplex.core.corpus.manifest import KNOWN, PATHS, BadRow, Row, Rows, number_as_text, read_rows
from personaplex.core.corpus.naming import id_fault, unhidden
from personaplex.core.corpus.raw import STDIN, decoded, manifest_text
from personaplex.core.errors import InputError, PersonaplexError, StorageError, UsageError
from personaplex.core.faults import shown
from personaplex.core.storage.spool import kept
from personaplex.core.storage.store import known_scheme, read_bytes
from personaplex.core.storage.urls import Stored, is_url, without_secrets

_KINDS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
_COMPANIONS = ("voice_prompt", "text_prompt_file")
_MEND_ROW = "mend the row, and run the same command again"


def read_manifest(source: str) -> Source:
    """What a manifest or standard input (`-`) holds; raises UsageError for one that makes no sense as a whole."""
    path = Path(source)
    suffix = path.suffix.lower()
    name, folder = ("standard input", Path()) if source == STDIN else (source, path.parent)
    if source != STDIN and suffix not in _KINDS:
        raise _no_manifest(source)
    return _listed_all(read_rows(manifest_text(source), _KINDS.get(suffix, "jsonl"), name), name, folder)


def is_manifest(stored: Stored) -> bool:
    """Whether an object is a manifest, by its name."""
    return not stored.url.endswith("/") and stored.path.suffix.lower() in _KINDS


def read_stored_manifest(stored: Stored) -> Source:
    """What a manifest in a store holds; raises UsageError and StorageError."""
    text = decoded(read_bytes(stored), str(stored))
    rows = read_rows(text, _KINDS[stored.path.suffix.lower()], str(stored))
    return _listed_all(rows, str(stored), stored.parent)


def _listed_all(rows: Rows[Row], name: str, folder: Path | Stored) -> Source:
    items: list[Item] = []
    refused: list[Refused] = []
    companion = cache(partial(_companion, folder))
    for number, row in rows.good:
        item = listed(row, folder, f"{name}, row {number}", number, companion)
        if isinstance(item, Refused):
            refused.append(item)
        else:
            items.append(item)
    refused += [_bad(row, folder) for row in rows.bad]
    return Source(items, distinct(refused, {item.id for item in items}), warnings=rows.warnings)


def _no_manifest(source: str) -> UsageError:
    if not os.path.lexists(source):
        return UsageError(f"{source}: {os.strerror(errno.ENOENT)}", "check the path")
    what = f"{source}: not a directory, a .jsonl or a .csv"
    if Path(source).suffix.lower() in RECORDING_SUFFIXES:
        return UsageError(what, f"run a single call with `personaplex offline --input-wav {source}`")
    return UsageError(what, "name one of these, or - for stdin")


def listed(
    row: Row, folder: Path | Stored, where: str, place: int, companion: Callable[[str, bool], str] | None = None
) -> Item | Refused:
    """A row's item, if it can be run.

    Without an id it has its input's path below `folder`, or the whole path of one that lies elsewhere. The part of a
    long recording is told by where it starts. `companion` is a `_companion` of the folder that remembers.
    """
    companion = companion or partial(_companion, folder)
    identity = row.id or _identity(row.audio_filepath, row.offset, folder)
    source = beside(folder, row.audio_filepath)
    stored = source if isinstance(source, Stored) else None
    told = row.audio_filepath if stored is None else without_secrets(row.audio_filepath)
    base = folder if isinstance(folder, Path) else Path()
    path = source if isinstance(source, Path) else Path(told)
    item = Item(identity, path, told, where, base, row, place=place, stored=stored)
    fault = _row_error(item)
    if fault is not None:
        return Refused.of(item, fault)
    try:
        here = {key: companion(name, key == "voice_prompt") for key in _COMPANIONS if (name := getattr(row, key))}
    except StorageError as error:
        return Refused.of(item, type(error)(f"{where}: {error.what}", error.mend))
    return replace(item, row=row.model_copy(update=here))


def beside(folder: Path | Stored, name: str) -> Path | Stored:
    """What a manifest in `folder` calls `name`: a URL, a path from the root, or one from the folder on."""
    if is_url(name):
        return Stored(name)
    return Path(name) if os.path.isabs(name) else folder / name


def _companion(folder: Path | Stored, name: str, is_voice: bool) -> str:
    """What a row's voice or text is called here, fetched if it lies in a store; raises StorageError."""
    found = beside(folder, name)
    if not isinstance(found, Stored):
        return name
    try:
        return str(kept(found))
    except StorageError:
        if is_voice and not is_url(name):
            return name  # one of the catalogue
        raise


def _identity(source: str, offset: float, folder: Path | Stored) -> str:
    found = beside(folder, source)
    if isinstance(found, Stored):
        inside = found.path
        if isinstance(folder, Stored) and found.scheme == folder.scheme and inside.is_relative_to(folder.path):
            inside = inside.relative_to(folder.path)
        name = os.path.splitext(inside.as_posix().lstrip("/"))[0]
    else:
        base, path = (Path(os.path.abspath(path)) for path in (folder if isinstance(folder, Path) else Path(), found))
        local = path.relative_to(base if path.is_relative_to(base) else path.anchor)
        name = os.path.splitext(local.as_posix())[0]
    return unhidden(name) + (f"@{offset:.12g}s" if offset else "")


def _row_error(item: Item) -> PersonaplexError | None:
    """What a good row can't be run for: an id that names no file, or a path that is none of this machine's."""
    fault = id_fault(item.id)
    odd = _odd_path(item.source) if item.stored is None else _odd_url(item.stored)
    if odd is not None and (item.stored is not None or not os.path.lexists(item.path)):
        return InputError(f"{item.where}: {odd[0]}", odd[1])
    if fault is not None:
        return UsageError(f"{item.where}: {fault[0]}", fault[1] if item.row.id else "give the row an id of its own")
    return None


def _odd_url(stored: Stored) -> tuple[str, str] | None:
    """Why there can be no object of this address, and the mend."""
    if known_scheme(stored.scheme):
        return None
    return f'"{shown(str(stored))}" is in no kind of store that fsspec knows', "check the address"


def _odd_path(source: str) -> tuple[str, str] | None:
    """Why there can be no file of this path here, and the mend."""
    path = shown(source)
    if os.sep == "/" and ("\\" in source or re.match(r"[A-Za-z]:/", source)):
        return f'"{path}" is a path of Windows', "write it as this machine knows it, with / between folders"
    if source != source.strip():
        return f'"{path}" starts or ends with a blank, and no file is called so', "take the blanks out"
    if source.startswith("~"):
        return f'"{path}" starts with ~, which only a shell makes a folder of', "write the whole path"
    return None


def _bad(row: BadRow, folder: Path | Stored) -> Refused:
    """A row at fault, called as the item would be that it should have been, as far as that can be told."""
    source = next((row.keys[key] for key in PATHS if isinstance(row.keys.get(key), str) and row.keys[key]), None)
    identity = number_as_text(row.keys.get("id"))
    if not isinstance(identity, str) and source is not None and "\0" not in source:
        identity = _identity(source, _offset(row), folder)
    own = {key: value for key, value in row.keys.items() if key not in KNOWN}
    error = UsageError(row.fault, _MEND_ROW)
    told = None if source is None else without_secrets(source)
    refused = Refused(identity if isinstance(identity, str) else "", row.number, told, own, error)
    return refused if refused.id else replace(refused, id=numbered(row.number), row=row.number)


def _offset(row: BadRow) -> float:
    try:
        return float(row.keys.get("offset", 0))
    except (TypeError, ValueError):
        return 0.0


def numbered(number: int) -> str:
    return f"row-{number}"


def distinct(refused: Sequence[Refused], taken: Collection[str]) -> list[Refused]:
    """Refused rows, each with an id that no other row has; those that another has too are called by their number."""
    counts = Counter(one.id for one in refused) + Counter(taken)
    made = []
    for one in refused:
        if counts[one.id] > 1:
            name = numbered(one.place)
            while name in counts:
                name += "+"
            one = replace(one, id=name, row=one.place)
        made.append(one)
    return made
