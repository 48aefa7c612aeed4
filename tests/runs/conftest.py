"""Runs made by hand: callers' recordings, agents' WAVs and transcripts that go with them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

RATE = 24_000
Spoken: TypeAlias = Sequence[tuple[float, float]]
Samples: TypeAlias = npt.NDArray[np.float32]


def sound(spoken: Spoken, seconds: float, rate: int = RATE) -> Samples:
    """Noise as loud as speech within the stretches, silence elsewhere."""
    samples = np.zeros(round(seconds * rate), np.float32)
    generator = np.random.default_rng(5)
    for start, end in spoken:
        part = samples[round(start * rate) : round(end * rate)]
        part[:] = generator.uniform(-0.3, 0.3, len(part))
    return samples


class MadeRun:
    """A batch's folder `out` and the recordings in `calls`, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.calls = folder, folder / "out", folder / "calls"
        self.rows: list[dict[str, Any]] = []
        self.out.mkdir()
        self.calls.mkdir()
        record = {"schema": "personaplex.run/1", "source": "calls", "volatile": {"folder": str(folder)}}
        (self.out / "run.json").write_text(json.dumps(record), encoding="utf-8")

    def add(
        self,
        name: str,
        caller: Spoken,
        agent: Spoken,
        *,
        seconds: float = 10.0,
        text: str = "",
        **changes: dict[str, Any],
    ) -> dict[str, Any]:
        """A call whose agent says a word every 0.4 s from 2 s on; `changes` go into the transcript's objects."""
        recording, wav = self.calls / f"{name}.wav", self.out / f"{name}.wav"
        for path in (recording, wav):
            path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(recording, sound(caller, seconds, 8000), 8000)
        soundfile.write(wav, sound(agent, seconds), RATE)
        words = [
            {"word": word, "start": 2 + 0.4 * number, "end": 2.32 + 0.4 * number, "frame": 25 + 5 * number}
            for number, word in enumerate(text.split())
        ]
        document: dict[str, Any] = {
            "schema": "personaplex.transcript/1",
            "id": name,
            "text": text,
            "segments": [{"words": words}] if words else [],
            "text_tokens": [3],
            "tokens_sha256": "0",
            "input": {
                "path": f"{name}.wav",
                "sha256": hashlib.sha256(recording.read_bytes()).hexdigest(),
                "channel": "mix",
                "duration": seconds,
            },
            "output": {
                "path": wav.name,
                "pcm_sha256": hashlib.sha256(wav.read_bytes()).hexdigest(),
                "sample_rate": RATE,
                "rms_dbfs": -20.0,
                "align": "model",
            },
            "files": {},
            "activity": {"caller": [], "agent": []},
            "flags": [],
            "prompt": {"voice": "agent_f", "voice_sha256": "0", "text": "You are kind."},
            "sampling": {"seed": 7},
            "model": {"name": "tiny", "weights_sha256": "0"},
            "engine": {"versions": {}},
        }
        for key, change in changes.items():
            document[key] = document[key] | change
        self.write(name, document)
        self.rows.append({"id": name, "status": "done"})
        self._write_rows()
        return document

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a transcript."""
        (self.out / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")

    def fail(self, name: str) -> None:
        """A call that the batch could not run."""
        self.rows.append({"id": name, "status": "failed", "error": {"kind": "InputError", "what": "no", "mend": ""}})
        self._write_rows()

    def _write_rows(self) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.out / "results.jsonl").write_text(lines, encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> MadeRun:
    """A run without calls."""
    return MadeRun(tmp_path)
