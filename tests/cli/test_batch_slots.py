"""Slots decide a GPU's bits: there a run takes the number asked for, and does again what was done with another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from personaplex.core.machine import memory
from personaplex.runs.batch import choose_slots

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MIB = 2**20


def test_as_many_slots_as_asked_for() -> None:
    assert choose_slots(8, 3, MIB, GPU) == 8  # a resumed run of three calls, too
    assert choose_slots(8, 3, MIB, CPU) == 3  # whose bits are those of 8
    assert choose_slots(2, 3, MIB, GPU) == choose_slots(2, 3, MIB, CPU) == 2
    assert choose_slots(8, 0, MIB, CPU) == 1


def test_as_many_slots_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10 * MIB)
    assert choose_slots(None, 100, MIB, GPU) == choose_slots(None, 100, MIB, CPU) == 7
    assert choose_slots(None, 3, MIB, GPU) == 3


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
        document["engine"] |= {"device": "cuda", "slots": 4 if name == "a" else 2}
        (done.folder / f"out/{name}.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr("personaplex.runs.todo.pick_device", lambda name: GPU)
    assert skipped(done, "--slots", "4") == 1
    assert skipped(done, "--slots", "2") == 1
    assert skipped(done, "--slots", "8") == 0
    assert skipped(done) == 2  # whatever was taken


def test_done_with_other_slots_on_a_cpu(done: Desk) -> None:
    assert done.document("out/a.json")["engine"]["slots"] is None
    assert skipped(done, "--slots", "1") == skipped(done, "--slots", "8") == skipped(done) == 2
