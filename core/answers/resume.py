"""Whether an item is done already: its outputs are there, made of the same input by the same settings and model."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.files import read_object


def finished(
    paths: OutputPaths, options: OutputOptions, expected: Mapping[str, Any], source: Path
) -> dict[str, Any] | None:
    """The transcript of a finished item, or None if it must be run: an output is missing, or made of something else.

    `expected` holds what the transcript must say, nested as in it; the input, `source`, is hashed only if all else
    agrees.
    """
    if not all(path.is_file() for path in paths.all(options)):
        return None
    document = read_object(paths.json)
    if document is None or not agrees(document, expected) or not _same_input(document, source):
        return None
    return document


def _same_input(document: Mapping[str, Any], path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(hashlib.file_digest(file, "sha256").hexdigest() == document["input"]["sha256"])
    except (OSError, KeyError, TypeError):
        return False


def agrees(found: Any, expected: Any) -> bool:
    """Whether a document holds all that is expected of it, nested alike; other fields may hold anything."""
    if isinstance(expected, Mapping):
        return isinstance(found, dict) and all(agrees(found.get(key), value) for key, value in expected.items())
    return bool(found == expected)
