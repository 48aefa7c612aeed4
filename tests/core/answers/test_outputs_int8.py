"""What a run says of weights in int8."""

from __future__ import annotations

import pytest
import torch

from personaplex.core.answers import outputs
from personaplex.core.answers.outputs import OutputOptions, Run
from personaplex.core.nn.precision import CudaInfo
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling
from personaplex.samples import tiny


@pytest.mark.parametrize("int8", [False, True])
def test_a_gpus_way_is_told(monkeypatch: pytest.MonkeyPatch, int8: bool) -> None:
    """One kind of GPU may multiply exactly in int8 and another not, and these two answer differently."""
    model = tiny.load(torch.device("cpu"))
    if int8:
        model.lm.temporal.hold_int8()
    pack(model.lm)
    monkeypatch.setattr(outputs, "cuda_info", lambda _: CudaInfo("12.8", 91_000, None, "triton", tf32=False))
    engine = Run.of(model, 1, Sampling(), "reference", OutputOptions()).engine
    assert engine.gpu is not None
    assert engine.gpu.get("int8", "").startswith("int8") == int8
    assert engine.quantize == ("int8" if int8 else None)
