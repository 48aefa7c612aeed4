"""However torch's switches were set before, every way to a model sets them as it is meant to run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
import torch

from personaplex.core.machine import bench
from personaplex.core.nn import fused, precision
from personaplex.core.weights.model import load, locate
from personaplex.samples import tiny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import BuildModel

CPU = torch.device("cpu")


def switches() -> dict[str, bool]:
    backends = torch.backends
    return {
        "matmul tf32": backends.cuda.matmul.allow_tf32,
        "bfloat16 sums": backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "float16 sums": backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "cudnn tf32": backends.cudnn.allow_tf32,
        "any algorithm": not backends.cudnn.deterministic,
        "benchmark": backends.cudnn.benchmark,
        "cudnn attention": backends.cuda.cudnn_sdp_enabled(),
    }


def turn_all_wrong() -> None:
    backends = torch.backends
    backends.cuda.matmul.allow_tf32 = True
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    backends.cudnn.allow_tf32 = True
    backends.cudnn.deterministic = False
    backends.cudnn.benchmark = True
    backends.cuda.enable_cudnn_sdp(True)


@pytest.fixture(autouse=True)
def settled() -> Iterator[None]:
    yield
    precision.settle()


def from_files(build_model: BuildModel) -> None:
    load(locate(str(build_model("short"))), CPU)


def packaged(_: BuildModel) -> None:
    tiny.load(CPU)


def random(_: BuildModel) -> None:
    bench.random_model(tiny.CONFIG, CPU, torch.float32, seed=1)


@pytest.mark.parametrize("way", [from_files, packaged, random])
def test_every_loader_settles(way: Callable[[BuildModel], None], build_model: BuildModel) -> None:
    turn_all_wrong()
    assert all(switches().values())
    way(build_model)
    assert not any(switches().values()), switches()


def test_what_is_recorded_of_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory) -> None:
    precision.settle()
    assert precision.cuda_info(CPU) is None
    told = tmp_path / "version"
    told.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\nGCC version: 13"
    )
    monkeypatch.setattr(precision, "_DRIVER", told)
    for used, attention in ((True, "triton"), (False, "efficient")):
        monkeypatch.setattr(fused, "is_used", lambda _, used=used: used)
        found = precision.cuda_info(torch.device("cuda"))
        assert found is not None
        assert (found.driver, found.attention, found.tf32) == ("570.124.06", attention, False)
        assert list(asdict(found)) == ["cuda", "cudnn", "driver", "attention", "tf32"]
    monkeypatch.setattr(precision, "_DRIVER", tmp_path / "none")
    assert precision.cuda_info(torch.device("cuda")).driver is None
