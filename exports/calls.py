"""The calls of a run as data sets take them: both sides' sound, the agent's words, and what a call was made with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.compare.document import answer, words_of
from personaplex.compare.recorded import read_run
from personaplex.compare.verdicts import Recorded
from personaplex.core.corpus.results import OWN_KEYS, read_results
from personaplex.core.errors import InputError, PersonaplexError, UsageError
from personaplex.core.files import read_object
from personaplex.exports.callers import Callers
from personaplex.exports.tracks import Track

_WHO = ("caller", "speaker")
"""Keys of a manifest that say whose voice the caller's is."""


@dataclass(frozen=True)
class Call:
    """A call that was answered. `own` are the manifest's other keys; `group` tells who calls."""

    id: str
    document: Mapping[str, Any]
    own: Mapping[str, Any]
    agent: Track
    caller: Track
    group: str

    @property
    def words(self) -> list[dict[str, Any]]:
        """The agent's words, each with `word`, `start` and `end`, in order."""
        return words_of(self.document)

    @property
    def segments(self) -> list[dict[str, Any]]:
        """The agent's segments, in order."""
        found: list[dict[str, Any]] = self.document["segments"]
        return found

    @property
    def caller_speech(self) -> list[tuple[float, float]]:
        """When the caller speaks, in seconds; nothing of a transcript that is too old to tell."""
        return [(start, end) for start, end in (self.document.get("activity") or {}).get("caller", [])]

    @property
    def facts(self) -> dict[str, Any]:
        """What every format says of a call beside its sound: plain values, each of one type in all calls."""
        document = self.document
        return {
            "id": self.id,
            "text": document["text"],
            "duration": document["input"]["duration"],
            "voice": document["prompt"].get("voice", ""),
            "prompt": document["prompt"]["text"],
            "seed": str(document["sampling"].get("seed", "")),  # up to 64 bits, which few readers hold exactly
            "model": document["model"]["name"],
            "revision": document["model"].get("revision", ""),
            "align": document["output"].get("align", ""),
            "caller": self.group,
            "caller_text": str(self.own.get("text") or ""),
            "flags": sorted({flag["kind"] for flag in document.get("flags") or []}),
        }


@dataclass(frozen=True)
class LeftOut:
    """A call that can't be exported, and why."""

    id: str
    why: str


@dataclass(frozen=True)
class RunCalls:
    """What a run holds: calls to export, those that failed in the run, and those that lack a file."""

    calls: list[Call] = field(default_factory=list)
    failed: list[LeftOut] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def read_calls(run: Path, callers: Path | None) -> RunCalls:
    """The calls in a folder of results; `callers` is where the callers' recordings lie now, if they were moved.

    Raises UsageError for what is no run, and for one that holds no answer.
    """
    if not run.is_dir():
        raise UsageError(f"{run}: not a folder", "name a folder that `personaplex batch` wrote to")
    recorded, rows = read_run(run), read_results(run)
    if not recorded:
        raise UsageError(f"{run}: holds no transcripts", "name a folder that `personaplex batch` wrote to")
    places, found = Callers.of(read_object(run / "run.json"), callers), RunCalls()
    for item in recorded.values():
        row = rows.get(item.id, {})
        if item.document is None:
            found.failed.append(LeftOut(item.id, item.failure or "it failed"))
            continue
        try:
            found.calls.append(_call(item, row, places))
        except PersonaplexError as error:
            found.left_out.append(LeftOut(item.id, error.what))
    return found


def _call(item: Recorded, row: Mapping[str, Any], places: Callers) -> Call:
    """Raises InputError for a call that lacks a side's sound."""
    document = answer(item)
    own = {_manifest_key(key): value for key, value in row.items() if key not in OWN_KEYS}
    who = next((str(own[key]) for key in _WHO if own.get(key)), document["input"]["sha256"])
    agent = _agent(item, document)
    return Call(item.id, document, own, agent, places.find(item, document, agent.path.parent), who)


def _manifest_key(key: str) -> str:
    plain = key.removeprefix("manifest_")
    return plain if plain in OWN_KEYS else key


def _agent(item: Recorded, document: Mapping[str, Any]) -> Track:
    if item.audio is None:
        raise InputError(f"the agent's WAV {document['output']['path']} is missing")
    expected = (document.get("files") or {}).get(item.audio.name)
    if expected is not None and file_sha256(item.audio) != expected:
        raise InputError(f"{item.audio}: is not the WAV that the transcript was written with")
    return Track(item.audio)


def file_sha256(path: Path) -> str:
    """SHA-256, in hex, of a file; raises InputError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
