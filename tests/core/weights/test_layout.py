from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from personaplex.core.config import PERSONAPLEX_7B, DepthConfig, LMConfig, MimiConfig, MimiTransformerConfig
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.core.weights.filling import with_depth_steps
from personaplex.core.weights.layout import Place, lm_layout, mimi_layout

if TYPE_CHECKING:
    from tests.conftest import ParityCase

FLAGSHIP = PERSONAPLEX_7B.lm


def meta(config: LMConfig | MimiConfig) -> nn.Module:
    with torch.device("meta"):
        return LM(config) if isinstance(config, LMConfig) else Mimi(config)


def test_the_7b_has_all_its_parameters() -> None:
    shapes = [place.shape for place in lm_layout(FLAGSHIP).values()]
    assert sum(torch.Size(shape).numel() for shape in shapes) == 8_371_408_896


def test_the_7b_with_8_steps() -> None:
    """What 8 steps leave out, counted by hand."""
    attention, gating = 4 * 1024 * 1024, 3 * 1024 * 2816
    left_out = 8 * (4096 * 1024 + 2048 * 1024 + 2049 * 1024 + 6 * (attention + gating))
    layout = lm_layout(with_depth_steps(FLAGSHIP, 8))
    total = sum(torch.Size(place.shape).numel() for place in layout.values())
    assert total == 8_371_408_896 - left_out


@pytest.mark.parametrize("config", [FLAGSHIP, with_depth_steps(FLAGSHIP, 8), PERSONAPLEX_7B.mimi])
def test_every_parameter_is_filled_once(config: LMConfig | MimiConfig) -> None:
    """By one tensor whole, or by as many parts as it has room for; only the packed depth steps are cut, to 8."""
    parameters = {name: parameter.shape for name, parameter in meta(config).named_parameters()}
    layout = lm_layout(config) if isinstance(config, LMConfig) else mimi_layout(config)
    places: dict[str, list[Place]] = {name: [] for name in parameters}
    for place in layout.values():
        if place.target is not None:
            places[place.target].append(place)
    cut = []
    for name, shape in parameters.items():
        stored = torch.Size(places[name][0].shape)
        assert {place.shape for place in places[name]} == {stored}
        assert stored[-1] in (shape[-1], 1)
        indices = [place.index for place in places[name]]
        if indices == [None]:
            cut += [name] if stored.numel() > shape.numel() else []
            assert stored.numel() in (shape.numel(), 2 * shape.numel())
        else:
            assert sorted(indices) == list(range(shape.numel() // stored.numel()))
            assert len(indices) * stored.numel() == shape.numel()
    packed = [f"depth.layers.{n}.{name}" for n in range(6) for name in ("in_proj", "out_proj")]
    assert cut == (packed if config is FLAGSHIP else [])


@pytest.mark.parametrize("name", ["short", "wide"])
def test_names_and_shapes_of_a_recorded_model(parity_cases: dict[str, ParityCase], name: str) -> None:
    facts = parity_cases[name].facts
    lm = LMConfig(**{**facts["lm"], "depth": DepthConfig(**facts["lm"]["depth"])})
    mimi = MimiConfig(**{**facts["mimi"], "transformer": MimiTransformerConfig(**facts["mimi"]["transformer"])})
    found = {f"lm.{key}": list(place.shape) for key, place in lm_layout(lm).items()}
    found |= {f"mimi.{key}": list(place.shape) for key, place in mimi_layout(mimi).items()}
    beyond = found.keys() - facts["tensors"].keys()
    assert {key: shape for key, shape in found.items() if key not in beyond} == facts["tensors"]
    assert all("._codebook." in key and mimi_layout(mimi)[key[5:]].optional for key in beyond)
