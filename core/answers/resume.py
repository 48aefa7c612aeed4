"""Whether an item is done already: its outputs are there, made of the same input by the same settings and model."""

from collections.abc import Mapping
from typing import Any

from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.audio.reading import Audio, sha256
from personaplex.core.audio.sound import Sound
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import read_object
from personaplex.core.storage.store import pinned
from personaplex.core.storage.urls import Stored


def finished(
    paths: OutputPaths, options: OutputOptions, expected: Mapping[str, Any], source: Audio
) -> dict[str, Any] | None:
    """The transcript of a finished item, or None if it must be run: an output is missing, or made of something else.

    `expected` holds what the transcript must say, nested as in it; the input, `source`, is hashed only if all else
    agrees, and an object not even then if its version is the one that was read.
    """
    if not all(path.is_file() for path in paths.all(options)):
        return None
    document = read_object(paths.json)
    if document is None or not agrees(document, expected) or not _same_input(document, source):
        return None
    return document


def _same_input(document: Mapping[str, Any], source: Audio) -> bool:
    try:
        if isinstance(source, Stored):
            source = pinned(source)
            read = document.get("volatile", {}).get("input_version")
            if source.version is not None and source.version == read:
                return True
        digest = source.sha256 if isinstance(source, Sound) else sha256(source)
        return bool(digest == document["input"]["sha256"])
    except (PersonaplexError, AttributeError, KeyError, TypeError):
        return False


def agrees(found: Any, expected: Any) -> bool:
    """Whether a document holds all that is expected of it, nested alike; other fields may hold anything."""
    if isinstance(expected, Mapping):
        return isinstance(found, dict) and all(agrees(found.get(key), value) for key, value in expected.items())
    return bool(found == expected)
