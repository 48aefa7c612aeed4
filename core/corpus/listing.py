"""From a manifest's rows to items, each with its id; a row at fault is refused alone."""

import errno
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from personaplex.core.audio.formats.suffixes import RECORDING_SUFFIXES
from personaplex.core.corpus.items import Item, Refused, Source
from personaplex.core.corpus.manifest import KNOWN, PATHS, BadRow, Row, number_as_text, read_rows
from personaplex.core.corpus.naming import id_fault, unhidden
from personaplex.core.corpus.raw import STDIN, manifest_text
from personaplex.core.errors import InputError, PersonaplexError, UsageError
from personaplex.core.faults import shown

_KINDS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
_MEND_ROW = "mend the row, and run the same command again"


def read_manifest(source: str) -> Source:
    """What a manifest or standard input (`-`) holds; raises UsageError for one that makes no sense as a whole."""
    path = Path(source)
    suffix = path.suffix.lower()
    name, folder = ("standard input", Path()) if source == STDIN else (source, path.parent)
    if source != STDIN and suffix not in _KINDS:
        raise _no_manifest(source)
    rows = read_rows(manifest_text(source), _KINDS.get(suffix, "jsonl"), name)
    items: list[Item] = []
    refused: list[Refused] = []
    for number, row in rows.good:
        item = listed(row, folder, f"{name}, row {number}", number)
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


def listed(row: Row, folder: Path, where: str, place: int) -> Item | Refused:
    """A row's item, if it can be run.

    Without an id it has its input's path below `folder`, or the whole path of one that lies elsewhere. The part of a
    long recording is told by where it starts.
    """
    identity = row.id or _identity(row.audio_filepath, row.offset, folder)
    item = Item(identity, folder / row.audio_filepath, row.audio_filepath, where, folder, row, place=place)
    fault = _row_error(item)
    return item if fault is None else Refused.of(item, fault)


def _identity(source: str, offset: float, folder: Path) -> str:
    base, path = (Path(os.path.abspath(path)) for path in (folder, folder / source))
    inside = path.relative_to(base if path.is_relative_to(base) else path.anchor)
    return unhidden(os.path.splitext(inside.as_posix())[0]) + (f"@{offset:.12g}s" if offset else "")


def _row_error(item: Item) -> PersonaplexError | None:
    """What a good row can't be run for: an id that names no file, or a path that is none of this machine's."""
    fault, odd = id_fault(item.id), _odd_path(item.source)
    if odd is not None and not os.path.lexists(item.path):
        return InputError(f"{item.where}: {odd[0]}", odd[1])
    if fault is not None:
        return UsageError(f"{item.where}: {fault[0]}", fault[1] if item.row.id else "give the row an id of its own")
    return None


def _odd_path(source: str) -> tuple[str, str] | None:
    """Why there can be no file of this path here, and the mend."""
    path = shown(source)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source):
        return f'"{path}" is an address, and recordings are read from this machine', "download it, and give its path"
    if os.sep == "/" and ("\\" in source or re.match(r"[A-Za-z]:/", source)):
        return f'"{path}" is a path of Windows', "write it as this machine knows it, with / between folders"
    if source != source.strip():
        return f'"{path}" starts or ends with a blank, and no file is called so', "take the blanks out"
    if source.startswith("~"):
        return f'"{path}" starts with ~, which only a shell makes a folder of', "write the whole path"
    return None


def _bad(row: BadRow, folder: Path) -> Refused:
    """A row at fault, called as the item would be that it should have been, as far as that can be told."""
    source = next((row.keys[key] for key in PATHS if isinstance(row.keys.get(key), str) and row.keys[key]), None)
    identity = number_as_text(row.keys.get("id"))
    if not isinstance(identity, str) and source is not None and "\0" not in source:
        identity = _identity(source, _offset(row), folder)
    own = {key: value for key, value in row.keys.items() if key not in KNOWN}
    error = UsageError(row.fault, _MEND_ROW)
    refused = Refused(identity if isinstance(identity, str) else "", row.number, source, own, error)
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
