"""A manifest of JSON: an object a line, or an array of objects."""

import json
from collections.abc import Iterator
from typing import Any

from personaplex.core.corpus.raw import JsonObject, Raw, listed, loads, raw
from personaplex.core.errors import UsageError


def json_rows(text: str, name: str) -> Iterator[Raw]:
    """The rows of JSON lines, of an array or of a single object; raises UsageError for an array that is broken."""
    try:
        whole = loads(text)
    except json.JSONDecodeError as error:
        # What comes after a whole value is the second line.
        if _is_array(text) and not error.msg.startswith("Extra data"):
            mend = "mend the array, or write an object a line without brackets"
            raise UsageError(f"{name}: a JSON array, but not a whole one ({error})", mend) from error
    except ValueError as error:
        if _is_array(text):
            raise UsageError(f"{name}: not JSON ({error})", "write a JSON object a line") from error
    else:
        if isinstance(whole, list):
            yield from (_row(number, value) for number, value in enumerate(whole, start=1))
        else:
            yield _row(text[: len(text) - len(text.lstrip())].count("\n") + 1, whole)
        return
    yield from _lines(text)


def _is_array(text: str) -> bool:
    return text.lstrip().startswith("[")


def _lines(text: str) -> Iterator[Raw]:
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would also split inside strings
        if line.strip():
            try:
                value = loads(line)
            except ValueError as error:
                yield Raw(number, fault=f"not JSON ({error})")
            else:
                yield _row(number, value)


def _row(number: int, value: Any) -> Raw:
    if not isinstance(value, JsonObject):
        return Raw(number, fault="not a JSON object")
    return raw(number, value, f"holds {listed(value.twice)} twice" if value.twice else None)
