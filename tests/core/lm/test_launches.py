"""What a GPU has to start for a tick of the 7B, counted on tensors without memory; nothing may wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from personaplex.core.config import CODEBOOKS, PERSONAPLEX_7B
from personaplex.core.lm.model import LM
from personaplex.core.nn import fused
from personaplex.core.nn.int8 import KERNELS, Int8Matrix
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling

META = torch.device("meta")
BUDGET = 800
NOTHING = (  # operators that start no kernel: views and room
    "view", "_unsafe_view", "unsqueeze", "squeeze", "select", "slice", "permute", "transpose", "t", "expand",
    "as_strided", "unbind", "unflatten", "split", "chunk", "detach", "alias", "empty", "new_empty", "empty_like",
    "reshape", "lift_fresh",
)  # fmt: skip
SEVERAL = {"topk": 2}  # the choice and the sort


class Counting(TorchDispatchMode):
    """Counts the kernels that operators start."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = Counter[str]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.partition(".")[0]
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            assert tensor is None or tensor.device == META, f"{name} left the device"
        if name not in NOTHING:
            self.kernels[name] += SEVERAL.get(name, 1)
        return out


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The kernels that are started in the context, by name."""
    with Counting() as counting:

        def launch(kernel: Any, _grid: Any, *arguments: Any, **_constants: Any) -> None:
            assert all(not isinstance(a, torch.Tensor) or a.device == META for a in arguments)
            counting.kernels[kernel.__name__] += 1

        for module in ("triton_rows", "triton_attention", "triton_product"):
            monkeypatch.setattr(f"personaplex.core.nn.kernels.{module}.launch", launch)
        yield counting.kernels


def settled_for_cuda(matrix: Int8Matrix, _device: torch.device) -> None:
    matrix.kernel, matrix._threads = KERNELS["cuda"][0], torch.get_num_threads()


def tick(slots: int, monkeypatch: pytest.MonkeyPatch, invariant: bool = False, int8: bool = False) -> Counter[str]:
    """Of one tick of the 7B with the default sampling, 400 positions behind every call."""
    with META:
        lm = LM(replace(PERSONAPLEX_7B.lm)).to(torch.bfloat16).requires_grad_(False)
    if int8:
        lm.temporal.hold_int8()
        monkeypatch.setattr(Int8Matrix, "settle", settled_for_cuda)
    pack(lm, invariant)
    state = lm.zeros(slots, 750)
    state.cache.filled = [400] * slots
    user = torch.zeros(slots, CODEBOOKS, dtype=torch.int64, device=META)
    seed, active = user[:, 0].contiguous(), user[:, 0] == 0
    sampling = Sampling()
    with counted(monkeypatch) as kernels, torch.inference_mode():
        lm.step(state, user, active, lambda logits, stream: sampling.choose(logits, stream, seed, seed))
    return kernels


@pytest.mark.usefixtures("fused_kernels")
def test_kernels_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many for one call as for 64."""
    kernels = tick(64, monkeypatch)
    assert kernels.total() <= BUDGET, kernels.most_common()
    assert kernels == tick(1, monkeypatch)


@pytest.mark.usefixtures("fused_kernels")
def test_batch_invariant_products_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, plain = tick(64, monkeypatch, invariant=True), tick(64, monkeypatch)
    assert kernels["linear"] == plain["_product"] == 0
    assert kernels["_product"] == plain["linear"] == 330
    assert kernels.total() == plain.total()


@pytest.mark.usefixtures("fused_kernels")
def test_kernels_a_tick_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding and scaling are torch's, several kernels each, and nothing waits for the device."""
    kernels = tick(64, monkeypatch, int8=True)
    assert kernels["_int_mm"] == 4 * PERSONAPLEX_7B.lm.num_layers
    assert kernels.total() <= 2500, kernels.most_common()


def test_kernels_a_tick_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch's own kernels do all, such as on Windows, it still works on the device alone."""
    pytest.importorskip("triton")
    assert not fused.is_used(META)
    assert tick(2, monkeypatch).total() <= 5000
