"""Small transcripts, made by hand, and the folders of results that they stand in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from safetensors.numpy import save_file

from personaplex.core.answers.transcript import tokens_sha256

FRAMES = 50

Tokens: TypeAlias = npt.NDArray[np.int32]
Samples: TypeAlias = npt.NDArray[np.float32]


class MakeDocument(Protocol):
    """See `document`."""

    def __call__(
        self, text: str = ..., tokens: Tokens | None = None, start: float = ..., **changes: Any
    ) -> dict[str, Any]: ...


class WriteRun(Protocol):
    """See `write_run`."""

    def __call__(
        self,
        folder: Path,
        documents: Mapping[str, Mapping[str, Any]],
        *,
        tokens: Mapping[str, Tokens] = ...,
        audio: Mapping[str, Samples] = ...,
        failed: Mapping[str, str] = ...,
        expect: Mapping[str, Any] = ...,
    ) -> Path: ...


def _tokens() -> Tokens:
    return (np.arange(FRAMES * 9, dtype=np.int32).reshape(FRAMES, 9) * 7) % 2048


def _document(
    text: str = "Thanks for calling.", tokens: Tokens | None = None, start: float = 1.36, **changes: Any
) -> dict[str, Any]:
    chosen = _tokens() if tokens is None else tokens
    times = [round(start + 0.4 * number, 2) for number in range(len(text.split()))]
    words = [
        {"word": word, "start": time, "end": round(time + 0.32, 2), "frame": round(time * 12.5)}
        for word, time in zip(text.split(), times, strict=True)
    ]
    segment = {"id": 0, "speaker": "agent", "start": start, "end": start + 0.4 * len(words), "text": text}
    made: dict[str, Any] = {
        "schema": "personaplex.transcript/1",
        "id": "call",
        "text": text,
        "language": "en",
        "segments": [segment | {"words": words}] if words else [],
        "frame_rate": 12.5,
        "text_tokens": chosen[:, 0].tolist(),
        "tokens_sha256": tokens_sha256(chosen),
        "input": {"path": "call.wav", "sha256": "1" * 64, "sample_rate": 8000, "channels": 1, "channel": "mix"},
        "output": {"path": "call.wav", "subtype": "PCM_16", "pcm_sha256": "2" * 64, "sample_rate": 24_000},
        "activity": {"caller": [[0.0, 1.0]], "agent": [[1.36, 2.56]]},
        "flags": [],
        "prompt": {"voice": "a", "voice_sha256": "3" * 64, "text": "You are kind.", "tokens": 4, "steps": 60},
        "sampling": {"seed": 7, "temp_text": 0.7, "greedy": False, "noise": "philox4x32-10/1"},
        "model": {"name": "tiny", "revision": "one", "weights_sha256": "4" * 64, "tokenizer_sha256": "5" * 64},
        "engine": {"device": "cpu", "device_kind": "AVX2", "dtype": "float32", "threads": 2, "slots": None},
        "warnings": [],
        "volatile": {"started": "2026-12-01T16:14:51+00:00", "seconds": 1.347},
    }
    made["input"] |= {"duration": FRAMES * 0.08}
    made["output"] |= {"peak": 0.5, "rms_dbfs": -20.5, "clipped": 0, "align": "reference"}
    made["engine"] |= {"pace": "batch", "versions": {"python": "3.11.7", "torch": "2.13.0"}}
    for name, change in changes.items():
        made[name] = made[name] | change if isinstance(made.get(name), dict) and isinstance(change, dict) else change
    return made


def _write_run(
    folder: Path,
    documents: Mapping[str, Mapping[str, Any]],
    *,
    tokens: Mapping[str, Tokens] | None = None,
    audio: Mapping[str, Samples] | None = None,
    failed: Mapping[str, str] | None = None,
    expect: Mapping[str, Any] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    for name, made in documents.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = {"id": name, "output": made["output"] | {"path": f"{path.stem}.wav"}}
        path.write_text(json.dumps({**made, **own}), encoding="utf-8")
        rows[name] = {"id": name, "status": "done"}
    for name, saved in (tokens or {}).items():
        save_file({"tokens": saved}, folder / f"{name}.tokens.safetensors")
    for name, samples in (audio or {}).items():
        soundfile.write(folder / f"{name}.wav", samples, 24_000, subtype="PCM_16")
    for name, what in (failed or {}).items():
        rows[name] = {"id": name, "status": "failed", "error": {"kind": "InputError", "what": what, "mend": "mend it"}}
    for name, asked in (expect or {}).items():
        rows[name] |= {"expect": asked}
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.values()), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def document() -> MakeDocument:
    """`document(text, tokens, start, **changes)`: a transcript of four seconds.

    It says the words of `text`, the first at `start` seconds and the next ones 0.4 s after each other; `tokens` are
    int32 [F, 9], `some_tokens` if left out. A change is put in a field's place, or a dict into the block that is there.
    """
    return _document


@pytest.fixture(scope="session")
def some_tokens() -> Tokens:
    """The tokens [50, 9] of a transcript for which no others are given; a copy may be changed."""
    return _tokens()


@pytest.fixture(scope="session")
def write_run() -> WriteRun:
    """`write_run(folder, documents, tokens=…, audio=…, failed=…, expect=…)`: a folder of results as a batch leaves it.

    All are by id. An id may have folders in it; outputs are named after it. Returns the folder.
    """
    return _write_run
