"""Slots decide a GPU's bits: there a run takes the number asked for, and does again what was done with another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

GPU = torch.device("cuda")


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A desk on which two calls were run."""
    for name in "ab":
        desk.sound(f"{name}.wav", desk.noise(0.1))
    desk.manifest([{"audio_filepath": f"{name}.wav"} for name in "ab"])
    assert desk.batch("calls.jsonl", "--slots", "4").code == 0
    return desk


def skipped(desk: Desk, *options: str) -> int:
    """How many of the two would be skipped."""
    plan: dict[str, Any] = json.loads(desk.batch("calls.jsonl", "--dry-run", "--json", *options).out)
    assert plan["to_run"] + plan["skipped"] == 2
    return int(plan["skipped"])


def test_done_with_other_slots_on_a_gpu(done: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        document = done.document(f"out/{name}.json")
        document["engine"] |= {"device": "cuda", "products": None, "slots": 4 if name == "a" else 2}
        (done.folder / f"out/{name}.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr("personaplex.runs.planning.todo.pick_device", lambda name: GPU)
    assert skipped(done, "--slots", "4") == 1
    assert skipped(done, "--slots", "2") == 1
    assert skipped(done, "--slots", "8") == 0
    assert skipped(done) == 2  # whatever was taken


def test_done_with_other_slots_on_a_cpu(done: Desk) -> None:
    assert done.document("out/a.json")["engine"]["slots"] is None
    assert skipped(done, "--slots", "1") == skipped(done, "--slots", "8") == skipped(done) == 2
