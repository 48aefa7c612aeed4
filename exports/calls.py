"""A call as data sets take it: both sides' sound and words, and what it was made with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.core.audio.reading import sha256
from personaplex.core.corpus.results import OWN_KEYS
from personaplex.core.errors import InputError
from personaplex.exports.tracks import Track

Segments = Sequence[Mapping[str, Any]]
"""Each with `start`, `end`, `text` and `words`, which have `word`, `start` and `end`."""


@dataclass(frozen=True)
class MadeWith:
    """The agent's persona and the model. `align` is empty for a conversation, whose sides have one clock."""

    voice: str
    prompt: str
    seed: str
    model: str
    revision: str
    weights_sha256: str
    align: str


@dataclass(frozen=True)
class Call:
    """A call that was answered.

    `caller_segments` are there where the caller's words are known, `caller_speech` tells the stretches of it in
    seconds. `own` are the manifest's other keys; `group` tells who calls.
    """

    id: str
    duration: float
    agent: Track
    caller: Track
    segments: Segments
    caller_segments: Segments
    caller_speech: Sequence[tuple[float, float]]
    flags: Sequence[Mapping[str, Any]]
    made_with: MadeWith
    own: Mapping[str, Any]
    group: str

    @property
    def words(self) -> list[Mapping[str, Any]]:
        """The agent's words, in order."""
        return [word for segment in self.segments for word in segment["words"]]

    @property
    def text(self) -> str:
        """What the agent says."""
        return " ".join(segment["text"] for segment in self.segments)

    @property
    def caller_text(self) -> str:
        """What the caller says, by the conversation or the manifest; empty where that isn't known."""
        said = " ".join(segment["text"] for segment in self.caller_segments)
        return said or str(self.own.get("text") or "")

    @property
    def facts(self) -> dict[str, Any]:
        """What every format says of a call beside its sound: plain values, each of one type in all calls."""
        return {
            "id": self.id,
            "text": self.text,
            "duration": self.duration,
            "voice": self.made_with.voice,
            "prompt": self.made_with.prompt,
            "seed": self.made_with.seed,
            "model": self.made_with.model,
            "revision": self.made_with.revision,
            "align": self.made_with.align,
            "caller": self.group,
            "caller_text": self.caller_text,
            "flags": sorted({flag["kind"] for flag in self.flags}),
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


def own_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's other keys in a row of results, called as they were there."""
    return {_manifest_key(key): value for key, value in row.items() if key not in OWN_KEYS}


def _manifest_key(key: str) -> str:
    plain = key.removeprefix("manifest_")
    return plain if plain in OWN_KEYS else key


def caller_of(own: Mapping[str, Any]) -> str | None:
    """Whose voice the caller's is, if the manifest says so by `caller` or `speaker`."""
    return next((str(own[key]) for key in ("caller", "speaker") if own.get(key)), None)


def written_wav(path: Path, files: Mapping[str, str]) -> Track:
    """The sound of a WAV that a run wrote, by the `files` of its transcript; raises InputError for any other."""
    if not path.is_file():
        raise InputError(f"its WAV {path.name} is missing")
    expected = files.get(path.name)
    if expected is not None and sha256(path) != expected:
        raise InputError(f"{path}: is not the WAV that the transcript was written with")
    return Track(path)
