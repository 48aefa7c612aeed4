"""Raw rows of a manifest, and the JSON values in them."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.core.errors import UsageError
from personaplex.core.faults import shown

STDIN = "-"


@dataclass(frozen=True)
class Raw:
    """A row as it is written: its keys with their values, and what is wrong with it, if anything is.

    `number` counts from 1: the line in a file of lines, the element in an array. `no_numbers` are the keys that hold
    a NaN, which is taken for null.
    """

    number: int
    keys: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None
    no_numbers: tuple[str, ...] = ()


class JsonObject(dict[str, Any]):
    """A JSON object that knows the keys that stand in it more than once."""

    twice: tuple[str, ...] = ()


def manifest_text(source: str) -> str:
    """The text of a manifest, or of standard input for `-`; raises UsageError."""
    name = "standard input" if source == STDIN else source
    try:
        content = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}", "check the path") from error
    return decoded(content, name)


def decoded(content: bytes, name: str) -> str:
    """A manifest's text: UTF-8, or UTF-16 with a byte order mark; raises UsageError."""
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text", "save the manifest as UTF-8") from error


def loads(text: str) -> Any:
    """A JSON value, its objects of JsonObject; raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_paired)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _paired(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = JsonObject(pairs)
    if len(made) < len(pairs):
        made.twice = tuple(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return made


def raw(number: int, values: Mapping[str, Any], fault: str | None = None) -> Raw:
    """A row of JSON values, each such that every JSON reader can read it again: null for NaN, or else at fault."""
    faults, no_numbers, keys = [] if fault is None else [fault], [], {}
    for key, value in values.items():
        found: list[float] = []
        try:
            keys[_text(key)] = _writable(value, found)
        except ValueError as error:
            faults.append(f"{shown(key)}: {error}")
        except RecursionError:
            faults.append(f"{shown(key)}: nested too deeply")
        if found:
            no_numbers.append(key)
    return Raw(number, keys, "; ".join(faults) or None, tuple(no_numbers))


def _writable(value: Any, no_numbers: list[float]) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_writable(one, no_numbers) for one in value]
    if isinstance(value, dict):
        return {_text(key): _writable(one, no_numbers) for key, one in value.items()}
    if isinstance(value, float) and math.isnan(value):
        no_numbers.append(value)
        return None
    if isinstance(value, float) and math.isinf(value):
        raise ValueError("holds an infinite number, which JSON does not have")
    return value


def _text(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("holds half of a surrogate pair, which is no text")
    return text


def listed(names: Iterable[str]) -> str:
    """Names in quotes, for a message; the first eight of many."""
    quoted = [f'"{shown(name)}"' for name in names]
    return ", ".join(quoted[:8]) + (", …" if len(quoted) > 8 else "")
