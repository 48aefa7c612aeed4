"""How many slots a run takes: those asked for, or those that fit."""

from __future__ import annotations

import pytest
import torch

from personaplex.core.machine import memory
from personaplex.core.machine.memory import choose_slots

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
