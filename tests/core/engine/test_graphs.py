"""Ticks replayed as graphs give what plain ticks give, with graphs emulated on a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS, DepthConfig
from personaplex.core.engine import slots
from personaplex.core.engine.session import Persona, RecordedVoice, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.lm.model import LM
from personaplex.core.machine import bench
from personaplex.core.nn import attention, cache, int8
from personaplex.core.nn.invariant import InvariantMatrix
from personaplex.core.nn.products import Packable, pack
from personaplex.core.sampling.draw import Sampling
from personaplex.samples import tiny

if TYPE_CHECKING:
    from tests.core.conftest import LoadedCase
    from tests.core.engine.conftest import FakeCuda

SAMPLINGS = {
    "sampled": Sampling(),
    "greedy": Sampling(greedy=True),
    "against loops": Sampling(top_p_text=0.9, repetition_penalty=1.2, no_repeat_ngram=2),
}
CALLS = ((0, 0, 5, 14), (1, 2, 1, 5), (2, 3, 9, 8), (1, 8, 2, 7), (2, 12, 3, 4))  # slot, first tick, voice, frames


def codes(frames: int, seed: int) -> Tensor:
    return torch.randint(2048, (frames, CODEBOOKS), generator=torch.Generator().manual_seed(seed))


def play(
    lm: LM, personas: dict[int, Persona], sampling: Sampling, graphs: bool, calls: tuple[tuple[int, ...], ...]
) -> Tensor:
    """The frames of all calls, one after the other, in an engine of three slots in which they come and go."""
    engine = Engine(lm, 3, 60, sampling, graphs)
    frames: dict[tuple[int, ...], list[Tensor]] = {call: [] for call in calls}
    for tick in range(max(start + count for _, start, _, count in calls)):
        user = codes(3, 1000 + tick)
        live = [call for call in calls if call[1] <= tick < call[1] + call[3]]
        for slot, start, voice, count in live:
            if start == tick:
                engine.admit(slot, personas[voice], seed=voice, calls=count)
        found = engine.step(user)
        for call in live:
            frames[call].append(found[call[0]].clone())
            if len(frames[call]) == call[3]:
                engine.release(call[0])
    return torch.cat([torch.stack(frames[call]) for call in calls])


@pytest.fixture
def captured(fake_cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """A CPU that has graphs and attends as an accelerator does."""
    monkeypatch.setattr(slots, "can_capture", lambda _: True)
    place = attention.Place.next

    def next_place(of: cache.KVCache) -> attention.Place:
        found = place(of)
        return attention.Place(found.rows, found.slot, attention.hiding(of))

    monkeypatch.setattr(attention.Place, "next", next_place)
    return fake_cuda


def personas_of(case: LoadedCase, calls: tuple[tuple[int, ...], ...]) -> dict[int, Persona]:
    return {
        voice: prefill(case.lm, case.config, RecordedVoice(codes(voice, voice)), list(range(40, 40 + voice)))
        for _, _, voice, _ in calls
    }


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_graph_for_each_length_read(
    short: LoadedCase, captured: FakeCuda, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without Triton; calls come and go between replays, and a new length is captured in the midst of calls."""
    monkeypatch.setattr(cache, "READ_BLOCK", 16)
    personas = personas_of(short, CALLS)
    plain = play(short.lm, personas, SAMPLINGS[sampling], False, CALLS)
    assert captured.graphs == 0
    assert torch.equal(play(short.lm, personas, SAMPLINGS[sampling], True, CALLS), plain)
    assert captured.graphs >= 2
    assert len(captured.pools) == 1
    assert len(plain.unique(dim=0)) > 25


def test_a_graph_in_int8(short: LoadedCase, captured: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows padded as on CUDA, and the kernel that any processor can run."""
    monkeypatch.setattr(int8, "KERNELS", {"cpu": (int8.KERNELS["cpu"][-1],)})
    monkeypatch.setattr(int8, "SIZES", int8.SIZES_CUDA)
    lm = short.lm_in(torch.bfloat16, int8=True)
    personas = {
        voice: prefill(lm, short.config, RecordedVoice(codes(voice, voice)), list(range(40, 40 + voice)))
        for _, _, voice, _ in CALLS
    }
    plain = play(lm, personas, Sampling(), False, CALLS)
    assert torch.equal(play(lm, personas, Sampling(), True, CALLS), plain)
    assert captured.graphs >= 1
    assert len(plain.unique(dim=0)) > 25


def very_small() -> LM:
    """A model for Triton's interpreter, not packed."""
    depth = DepthConfig(dim=16, num_heads=1, num_layers=1, feedforward=24, codebooks=8)
    shape = replace(tiny.CONFIG.lm, dim=16, num_heads=1, num_layers=1, feedforward=24, depth=depth)
    return bench.random_model(replace(tiny.CONFIG, lm=shape), torch.device("cpu"), torch.float32, seed=1)[0]


@pytest.mark.usefixtures("fused_kernels")
def test_one_graph_for_all_lengths(captured: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Triton, whose kernels are interpreted here, which takes a very small model."""
    monkeypatch.setattr(cache, "READ_BLOCK", 16)
    lm = very_small()
    pack(lm)
    calls = ((0, 0, 30, 3), (1, 1, 3, 1), (1, 2, 14, 1))
    personas = {length: bench.filled_persona(lm, length) for _, _, length, _ in calls}
    plain = play(lm, personas, Sampling(), False, calls)
    assert torch.equal(play(lm, personas, Sampling(), True, calls), plain)
    assert captured.graphs == 1
    assert len(plain.unique(dim=0)) == len(plain)


@pytest.mark.usefixtures("fused_kernels")
def test_with_invariant_products_slots_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call alone in its engine gets the logits that it gets in the third of three slots, beside another."""
    lm = very_small()
    for part in lm.modules():
        if isinstance(part, Packable):
            part.pack_own(InvariantMatrix)
    monkeypatch.setattr(LM, "_check_packed", lambda _: None)
    ours, other = bench.filled_persona(lm, 9), bench.filled_persona(lm, 21)

    def logits(rows: int, slot: int) -> Tensor:
        engine, found = Engine(lm, rows, 30, Sampling()), list[Tensor]()
        engine.admit(slot, ours, seed=1, calls=2)
        if rows > 1:
            engine.admit(0, other, seed=2, calls=2)
        for tick in codes(2, 5):
            engine.step(tick.expand(rows, -1), lambda _, these: found.append(these[slot].clone()))
        return torch.cat(found)

    alone = logits(1, 0)
    assert torch.equal(logits(3, 2), alone)
    assert len(alone.unique()) > 1000


def test_what_a_tick_changes_is_put_back_after_the_warm_up(
    short: LoadedCase, captured: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the emulation is known to notice: with one of the tensors left out, calls differ."""
    personas = personas_of(short, CALLS[:2])
    plain = play(short.lm, personas, Sampling(), False, CALLS[:2])
    changed = Engine._changed
    for missing in range(3):
        monkeypatch.setattr(
            Engine, "_changed", lambda engine, n=missing: [t for i, t in enumerate(changed(engine)) if i != n]
        )
        assert not torch.equal(play(short.lm, personas, Sampling(), True, CALLS[:2]), plain)
    assert captured.graphs == 3
