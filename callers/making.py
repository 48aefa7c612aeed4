"""From scripts to callers' recordings, and a manifest of them that knows when every turn is said."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from personaplex.callers.scripts import NamedScript, Script
from personaplex.callers.speaking import Synthesiser, seconds
from personaplex.core.audio.reading import Samples
from personaplex.core.audio.writing import encode_wav
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import make_folder, replacing, write_text

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class Pauses:
    """Seconds of silence where a script says nothing of them: before the first turn, between turns, after the last."""

    lead_in: float
    pause: float
    tail: float


@dataclass(frozen=True)
class Label:
    """A turn of a recording, `start` to `end` in seconds."""

    start: float
    end: float
    text: str
    breaks_in: bool


def spoken(script: Script, voices: Synthesiser, pauses: Pauses) -> tuple[Samples, list[Label]]:
    """A script's recording [N] at 24 kHz and its turns; raises InputError.

    That also for a turn whose `at` lies before the end of the one before.
    """
    parts: list[Samples] = []
    labels: list[Label] = []
    reached = 0

    def wait(samples: int) -> None:
        nonlocal reached
        parts.append(np.zeros(samples, dtype=np.float32))
        reached += samples

    for number, turn in enumerate(script.turns):
        between = _or(script.lead_in, pauses.lead_in) if number == 0 else pauses.pause
        start = (
            reached + round(_or(turn.pause, between) * SAMPLE_RATE) if turn.at is None else round(turn.at * SAMPLE_RATE)
        )
        if start < reached:
            what = f"turn {number + 1} is at {turn.at:g} s, and the one before ends at {seconds(reached):g} s"
            raise InputError(what, "give it a later time")
        said = voices.say(turn.say, script.voice)
        wait(start - reached)
        parts.append(said)
        labels.append(Label(seconds(start), seconds(start + len(said)), turn.say, turn.breaks_in))
        reached = start + len(said)
    wait(round(_or(script.tail, pauses.tail) * SAMPLE_RATE))
    return np.concatenate(parts), labels


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def make(one: NamedScript, voices: Synthesiser, pauses: Pauses, folder: Path) -> dict[str, Any]:
    """Write a script's recording, `<id>.wav`, and return its row of the manifest; raises InputError."""
    samples, labels = spoken(one.script, voices, pauses)
    path = folder / f"{one.id}.wav"
    make_folder(path.parent)
    with replacing(path) as part:
        part.write_bytes(encode_wav(samples)[0])
    turns = [{"start": at.start, "end": at.end, "text": at.text, "breaks_in": at.breaks_in} for at in labels]
    return {**one.script.passed_through, "audio_filepath": f"{one.id}.wav", "id": one.id, "turns": turns}


def write_manifest(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the manifest of some recordings beside them; raises InputError."""
    path = folder / MANIFEST
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def check_folder(folder: Path, scripts: Sequence[NamedScript]) -> None:
    """Raise UsageError if a recording or the manifest would replace a file that these scripts did not make.

    That is one that the manifest there does not name.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder} is not a folder", "choose a folder; it is made if need be")
    manifest = folder / MANIFEST
    made = _made(manifest)
    for path in (manifest, *(folder / f"{one.id}.wav" for one in scripts)):
        if path.exists() and path not in made:
            raise UsageError(
                f"{path}: is there and was not made from scripts, and is not replaced", "choose another -o"
            )


def _made(manifest: Path) -> set[Path]:
    """The files that an earlier run made, by the manifest that it left."""
    try:
        rows = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
        return {manifest, *(manifest.parent / row["audio_filepath"] for row in rows if "turns" in row)}
    except (OSError, ValueError, TypeError, KeyError):
        return set()
