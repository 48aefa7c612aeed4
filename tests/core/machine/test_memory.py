"""How many slots a run takes: those asked for, or those that fit."""

from __future__ import annotations

import pytest
import torch

from personaplex.core.machine import memory
from personaplex.core.machine.memory import GPU_SLOTS, allocatable_slots, choose_slots, default_slots

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MIB, GIB = 2**20, 2**30
SLOT = 400 * MIB


def free(gib: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: int(gib * GIB))


def test_a_gpu_keeps_room_for_what_is_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    free(3 + 16 * SLOT / GIB, monkeypatch)
    assert default_slots(1000, SLOT, GPU) == 8
    free(3 + 17 * SLOT / GIB, monkeypatch)
    assert default_slots(1000, SLOT, GPU) == 16
    assert default_slots(3, SLOT, GPU) == 3
    assert default_slots(1000, SLOT, GPU, to_load=5 * GIB) == 2
    free(0.5, monkeypatch)
    assert default_slots(1000, SLOT, GPU) == 1


def test_a_gpu_takes_one_of_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for gib in range(1, 140):
        free(gib, monkeypatch)
        found.add(default_slots(1000, SLOT, GPU))
    assert found == set(GPU_SLOTS)
    assert max(GPU_SLOTS) == memory.MOST_SLOTS["cuda"]


def test_a_host_keeps_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    free(10, monkeypatch)
    assert default_slots(1000, GIB, CPU) == 7
    assert default_slots(1000, GIB, CPU, to_load=5 * GIB) == 3


class Cramped:
    """A language model whose device has memory for so many slots."""

    device = GPU

    def __init__(self, room: int) -> None:
        self.room = room

    def zeros(self, slots: int, _positions: int) -> None:
        if slots > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory.")


def test_slots_are_halved_until_they_fit() -> None:
    assert [allocatable_slots(Cramped(room), 48, 100) for room in (48, 47, 6, 1)] == [48, 24, 6, 1]  # type: ignore[arg-type]
    with pytest.raises(torch.OutOfMemoryError):
        allocatable_slots(Cramped(0), 48, 100)  # type: ignore[arg-type]


def test_as_many_slots_as_asked_for() -> None:
    assert choose_slots(8, 3, MIB, GPU) == 8  # a resumed run of three calls, too
    assert choose_slots(8, 3, MIB, CPU) == 3  # whose bits are those of 8
    assert choose_slots(2, 3, MIB, GPU) == choose_slots(2, 3, MIB, CPU) == 2
    assert choose_slots(8, 0, MIB, CPU) == 1


def test_as_many_slots_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10 * MIB)
    assert choose_slots(None, 100, MIB, CPU) == 7
    assert choose_slots(None, 100, MIB, CPU, to_load=5 * MIB) == 3
    monkeypatch.setattr(memory, "free_bytes", lambda device: 4096 * MIB)
    assert choose_slots(None, 100, 100 * MIB, GPU) == 8
    assert choose_slots(None, 3, 100 * MIB, GPU) == 3
    assert choose_slots(None, 100, 100 * MIB, GPU, to_load=600 * MIB) == 4
