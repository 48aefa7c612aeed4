"""Layers that visit their device: they compute the same, in copies that are gone afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.session import RecordedVoice, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.lm.model import LM
from personaplex.core.nn.int8 import KERNELS, Int8Matrix
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Model
from personaplex.core.weights.offload import offload
from personaplex.samples import tiny

CPU = torch.device("cpu")
FRAMES = 5
HALVES = next(kernel for kernel in KERNELS["cpu"] if kernel.name == "halves")


def codes(frames: int, seed: int) -> Tensor:
    return torch.randint(2048, (frames, CODEBOOKS), generator=torch.Generator().manual_seed(seed))


def frames(model: Model) -> Tensor:
    """Of a prompt and a call of a few ticks, greedy."""
    persona = prefill(model.lm, model.config, RecordedVoice(codes(4, 1)), [40, 41])
    engine = Engine(model.lm, 1, persona.steps + FRAMES, Sampling(greedy=True))
    engine.admit(0, persona, 1, FRAMES)
    return torch.cat([engine.step(tick[None]) for tick in codes(FRAMES, 2)])


@pytest.fixture(autouse=True)
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's weights are not packed, a CPU's must be."""
    monkeypatch.setattr(LM, "_check_packed", lambda _: None)


def loaded(dtype: torch.dtype, int8: bool) -> Model:
    model = tiny.load(CPU, dtype)
    if int8:
        model.lm.temporal.hold_int8()
    return model


def places(layer: nn.Module) -> list[int]:
    return [parameter.data_ptr() for parameter in layer.parameters()]


@pytest.mark.parametrize(("dtype", "int8"), [(torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)])
def test_a_visiting_layer_computes_the_same(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, int8: bool) -> None:
    monkeypatch.setattr("personaplex.core.nn.int8.KERNELS", {"cpu": (HALVES,)})  # with weights as they are
    plain = loaded(dtype, int8)
    for part in plain.lm.modules():
        if isinstance(part, Int8Matrix):
            part.settle(CPU)
    expected = frames(plain)
    model = loaded(dtype, int8)
    offload(model, CPU)
    first = model.lm.temporal.layers[0]
    home, seen = places(first), []
    first.norm1.register_forward_pre_hook(lambda module, _: seen.append(module.alpha.data_ptr()))
    assert torch.equal(frames(model), expected)
    assert places(first) == home
    assert len(seen) == 1 + FRAMES
    assert not set(seen) & set(home)


def test_a_layers_weights_lie_in_one_piece_at_home() -> None:
    model = tiny.load(CPU)
    before = {name: parameter.clone() for name, parameter in model.lm.named_parameters()}
    offload(model, CPU)
    for layer in model.lm.temporal.layers:
        assert len({parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}) == 1
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.lm.named_parameters())
