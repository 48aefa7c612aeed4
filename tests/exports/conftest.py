"""A run made by hand: five calls in two folders, of callers in several formats, one of which failed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from personaplex.core.answers.transcript import tokens_sha256
from personaplex.core.audio.reading import sha256
from personaplex.exports.export import Exported, Request
from personaplex.exports.export import export as write

if TYPE_CHECKING:
    from pathlib import Path

AGENT_RATE = 24_000


@dataclass(frozen=True)
class Made:
    """A run in `run`, the callers' recordings in `callers`, and data sets below `folder`."""

    folder: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def callers(self) -> Path:
        return self.folder / "callers"

    def export(self, to: str, **options: Any) -> Exported:
        """Export the run to the folder `data`."""
        return write(Request(self.run, to, self.folder / "data", **options))

    def data(self, name: str) -> Path:
        return self.folder / "data" / name

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / f"{name}.json").read_text(encoding="utf-8"))
        return found

    def samples(self, name: str) -> Any:
        """What the caller of the call `name` says, as read from where it was recorded: [N]."""
        document = self.document(name)
        found, rate = soundfile.read(self.callers / document["input"]["path"], dtype="float32", always_2d=True)
        return found[:, 1] if document["input"]["channel"] == "right" else found[:, 0], rate


def tone(seconds: float, rate: int, hertz: float) -> Any:
    return (0.3 * np.sin(np.arange(round(seconds * rate)) * 2 * np.pi * hertz / rate)).astype(np.float32)


def add_call(made: Made, name: str, caller: str, words: list[tuple[str, float, float]], **changes: Any) -> None:
    """The answer to a caller's recording, as a batch writes it; a change is put into the block that is there."""
    content = (made.callers / caller).read_bytes()
    with soundfile.SoundFile(made.callers / caller) as file:
        seconds, rate, channels = file.frames / file.samplerate, file.samplerate, file.channels
    wav = made.run / f"{name}.wav"
    wav.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(wav, tone(seconds, AGENT_RATE, 440), AGENT_RATE, subtype="PCM_16")
    timed = [{"word": word, "start": start, "end": end, "frame": round(start * 12.5)} for word, start, end in words]
    text = " ".join(word for word, _, _ in words)
    segment = {"id": 0, "speaker": "agent", "text": text, "words": timed}
    tokens = np.zeros((int(-(-seconds // 0.08)), 9), dtype=np.int32)
    document: dict[str, Any] = {
        "schema": "personaplex.transcript/1",
        "id": name,
        "text": text,
        "segments": [segment | {"start": words[0][1], "end": words[-1][2]}] if words else [],
        "text_tokens": tokens[:, 0].tolist(),
        "tokens_sha256": tokens_sha256(tokens),
        "input": {
            "path": caller,
            "sha256": hashlib.sha256(content).hexdigest(),
            "sample_rate": rate,
            "channels": channels,
            "channel": "mix",
            "duration": seconds,
        },
        "output": {
            "path": wav.name,
            "subtype": "PCM_16",
            "pcm_sha256": "2" * 64,
            "sample_rate": AGENT_RATE,
            "rms_dbfs": -20.0,
            "align": "reference",
        },
        "files": {wav.name: hashlib.sha256(wav.read_bytes()).hexdigest()},
        "activity": {"caller": [[0.0, 0.48]], "agent": [[0.56, seconds]]},
        "flags": [],
        "prompt": {"voice": "anna", "voice_sha256": "3" * 64, "text": "You are kind."},
        "sampling": {"seed": 7},
        "model": {"name": "tiny", "revision": "one", "weights_sha256": "4" * 64},
        "engine": {"versions": {}},
    }
    for block, change in changes.items():
        document[block] = document[block] | change if isinstance(change, dict) else change
    (made.run / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    add_row(made, {"id": name, "status": "done", "audio_filepath": caller, "scenario": f"of {name}"})


def add_row(made: Made, row: dict[str, Any]) -> None:
    made.run.mkdir(exist_ok=True)
    with (made.run / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def side(made: Made, name: str, wav: str, hertz: float) -> dict[str, Any]:
    """What a conversation's transcript says of a side, whose WAV of 2 s is written."""
    soundfile.write(made.run / wav, tone(2.0, AGENT_RATE, hertz), AGENT_RATE, subtype="PCM_16")
    return {
        "activity": [[0.0, 0.48], [1.2, 1.6]],
        "flags": [],
        "prompt": {"voice": name, "voice_sha256": "3" * 64, "text": f"You are {name}."},
        "sampling": {"seed": 7},
        "output": {"path": wav},
    }


@pytest.fixture
def talked(tmp_path: Path) -> Made:
    """A run of a conversation, `talk`, in which both sides speak, and of one that failed."""
    made = Made(tmp_path)
    made.run.mkdir()
    turns = [("b", 0.0, 0.48, "Hello?"), ("a", 0.56, 1.04, "Good morning."), ("b", 1.2, 1.6, "Bye.")]
    segments = []
    for number, (speaker, start, end, text) in enumerate(turns):
        words = [{"word": word, "start": start, "end": end, "frame": 0} for word in text.split()]
        segments.append({"id": number, "speaker": speaker, "start": start, "end": end, "text": text, "words": words})
    sides = {"a": side(made, "anna", "talk.a.wav", 440), "b": side(made, "bert", "talk.b.wav", 300)}
    document = {
        "schema": "personaplex.conversation/1",
        "id": "talk",
        "segments": segments,
        "duration": 2.0,
        "end": "goodbye",
        "sides": sides,
        "files": {path.name: sha256(path) for path in made.run.iterdir()},
        "flags": [{"kind": "both_waiting", "start": 1.6, "end": 2.0, "detail": "no word for 0.40 s"}],
        "model": {"name": "tiny", "revision": "one", "weights_sha256": "4" * 64},
    }
    (made.run / "talk.json").write_text(json.dumps(document), encoding="utf-8")
    (made.run / "run.json").write_text('{"schema": "personaplex.talk/1"}', encoding="utf-8")
    row = {"ticket": "A-17", "id": "talk", "status": "done", "sides": {"a": "talk.a.wav", "b": "talk.b.wav"}}
    add_row(made, row | {"end": "goodbye", "text": {"a": "Good morning.", "b": "Hello? Bye."}})
    add_row(made, {"id": "bad", "status": "failed", "error": {"kind": "UsageError", "what": "no role"}})
    return made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run of four answered calls, `a/1`, `a/1.x`, `b` and `c.d`, and one that failed."""
    made = Made(tmp_path)
    made.callers.mkdir()
    soundfile.write(made.callers / "one.wav", tone(1.5, 16_000, 300), 16_000)
    both = np.stack([tone(1.0, 8000, 200), 0.5 * tone(1.0, 8000, 500)], axis=1)
    soundfile.write(made.callers / "two.wav", both, 8000)
    soundfile.write(made.callers / "three.flac", tone(2.0, 24_000, 250), 24_000)
    add_call(made, "a/1", "one.wav", [("Thanks", 0.56, 0.8), ("for", 0.8, 0.96), ("calling.", 0.96, 1.52)])
    add_call(made, "a/1.x", "one.wav", [("Hello.", 0.64, 1.04)], sampling={"seed": 2**53 - 1})
    add_call(made, "b", "two.wav", [], input={"channel": "right"})
    flag = {"kind": "loop", "start": 0.8, "end": 1.6, "detail": 'says "no" 4 times'}
    add_call(made, "c.d", "three.flac", [("No.", 0.8, 1.2), ("No.", 1.2, 1.6)], flags=[flag])
    add_row(made, {"id": "e", "status": "failed", "error": {"kind": "InputError", "what": "is empty (0 bytes)"}})
    record = {"schema": "personaplex.run/1", "source": "callers", "volatile": {"folder": str(tmp_path)}}
    (made.run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return made
