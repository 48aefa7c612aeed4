"""A manifest of CSV, as spreadsheets in many countries write it: a header of keys, then a row a call."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from personaplex.core.corpus.raw import Raw, listed, loads, raw
from personaplex.core.errors import UsageError

if TYPE_CHECKING:
    from _csv import Reader

_SEPARATORS = ",;\t|"
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n?', re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """What a manifest's columns mean: one of `paths` must be there, none of `known` twice; `objects` hold JSON."""

    known: frozenset[str]
    paths: tuple[str, ...]
    objects: frozenset[str]


@dataclass(frozen=True)
class _Header:
    cells: list[str]
    separator: str
    blanks: bool
    """Whether a blank follows the separator, which then belongs to no cell."""


def csv_rows(text: str, name: str, columns: Columns) -> Iterator[Raw]:
    """The rows below a header, without their empty cells; those that hold nothing else count for nothing.

    Cells are separated by a comma, a semicolon, a tab or a bar, whichever makes the header name the recordings, or by
    what a first line `sep=;` says. Raises UsageError for a header that makes no sense, and for a quote that is never
    closed, which swallows the rows after it.
    """
    chosen = _SEPARATOR_LINE.match(text)
    start = chosen.end() if chosen else 0
    header = _header(text[start:], chosen[1] if chosen else _SEPARATORS, name, columns)
    if header is None:
        return
    _check(header, name, columns)
    reader = _reader(text[start:], header.separator, header.blanks)
    before, seen = (1 if chosen else 0), False
    while True:
        begun = reader.line_num + before + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise UsageError(f"{name}, row {begun}: a quote is opened and never closed", "close it") from error
            yield Raw(reader.line_num + before, fault=f"not CSV ({error})")
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            if seen:
                yield _row(reader.line_num + before, cells, header, columns)
            seen = True  # the first one is the header


def _reader(text: str, separator: str, blanks: bool, strict: bool = True) -> "Reader":
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=strict, skipinitialspace=blanks)


def _header(text: str, separators: str, name: str, columns: Columns) -> _Header | None:
    """The header, with the first of `separators` that makes it name the recordings; None without any."""
    headers = []
    for separator in separators:
        cells = _first(text, separator, blanks=False)
        if cells is None:
            return None
        blanks = any(cell.startswith(" ") for cell in cells[1:])
        cells = _first(text, separator, blanks) or cells
        headers.append(_Header([cell.strip() for cell in cells], separator, blanks))
    naming = [header for header in headers if not set(columns.paths).isdisjoint(header.cells)]
    return (naming or sorted(headers, key=lambda header: -len(header.cells)))[0]


def _first(text: str, separator: str, blanks: bool) -> list[str] | None:
    """The first row that holds anything."""
    try:
        rows = _reader(text, separator, blanks, strict=False)
        return next((cells for cells in rows if any(map(str.strip, cells))), None)
    except csv.Error:
        return None


def _check(header: _Header, name: str, columns: Columns) -> None:
    if set(columns.paths).isdisjoint(header.cells):
        what = f"{name}: no column is called {' or '.join(columns.paths)}; there are {listed(header.cells)}"
        raise UsageError(what, f"call the column of the recordings {columns.paths[0]}, in small letters")
    twice = [cell for cell in dict.fromkeys(header.cells) if cell and header.cells.count(cell) > 1]
    if twice:
        raise UsageError(f"{name}: there are two columns {listed(twice)}", "keep one of them, or rename it")


def _row(number: int, cells: Sequence[str], header: _Header, columns: Columns) -> Raw:
    keys, faults = {}, []
    for column, cell in zip(header.cells, cells, strict=False):
        value = cell.strip() if column in columns.known else cell
        if column in columns.objects and value:
            try:
                keys[column] = loads(value)
            except ValueError as error:
                faults.append(f"{column} is not a JSON object ({error})")
        elif value:
            keys[column] = value
    if len(cells) != len(header.cells):
        faults.insert(0, f"has {len(cells)} cells, and the header {len(header.cells)}")
    return raw(number, keys, "; ".join(faults) or None)
