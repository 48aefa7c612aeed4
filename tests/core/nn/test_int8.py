"""Products in int8: exact where they run, whatever the processor, and so a row's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.nn import int8
from personaplex.core.nn.int8 import KERNELS, KERNELS_ALONE, LARGEST, Int8Matrix, Kernel, is_exact, quantised, rounded
from personaplex.core.nn.products import lay_out, linear, pack, probe, ways

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.bfloat16)
# (out, in): none a multiple of a kernel's tile, and one whose sums are beyond what float32 holds exactly.
SHAPES = ((7, 33), (183, 64), (130, 352), (260, 2816))
LADDER = [kernel.name for kernel in KERNELS["cpu"]]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have found out of this machine's kernels is not known here."""
    monkeypatch.setattr(int8, "_EXACT", {})


def settled(weight: Tensor) -> Int8Matrix:
    matrix = Int8Matrix.of(weight)
    matrix.settle(CPU, several=True)
    return matrix


def only(*kernels: Kernel) -> dict[str, tuple[Kernel, ...]]:
    return {"cpu": kernels}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_near_to_the_weight(shape: tuple[int, int], dtype: torch.dtype) -> None:
    weight, x = random(*shape, dtype=dtype), random(5, 2, shape[1], dtype=dtype)
    found, expected = linear(x, settled(weight)), F.linear(x, weight)
    assert (found.dtype, found.shape) == (dtype, expected.shape)
    assert (found - expected).float().norm() < 0.03 * expected.float().norm()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("two_threads")
def test_a_row_rounds_alike_among_any_others(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix, wild = settled(random(*shape, dtype=dtype)), 100 * random(1, 90, shape[1], dtype=dtype)[0]
    row = random(1, shape[1], dtype=dtype)
    alone = matrix(row)
    for rows in (*range(1, 18), 33, 64, 65, 90):
        for place in {0, rows // 2, rows - 1}:
            x = wild[:rows].clone()
            x[place] = row
            assert torch.equal(matrix(x)[place], alone[0])
            assert torch.equal(matrix(x[:, None])[place, 0], alone[0])
            assert torch.equal(matrix(x[None])[0, place], alone[0])


@pytest.mark.parametrize("name", LADDER)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kernel_that_holds_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], name: str
) -> None:
    kernel = KERNELS["cpu"][LADDER.index(name)]
    if not is_exact(kernel, torch.Size(shape), CPU):
        pytest.skip(f"this machine's {name} kernel is not exact")
    weight, x = random(*shape), random(19, shape[1])
    expected = settled(weight)(x)
    monkeypatch.setattr(int8, "KERNELS", only(kernel))
    matrix = settled(weight)
    assert matrix.kernel is kernel
    assert torch.equal(matrix(x), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_call_and_several_give_the_same(shape: tuple[int, int]) -> None:
    weight, x = random(*shape), random(19, shape[1])
    matrix = Int8Matrix.of(weight)
    for several, kernels in ((False, KERNELS_ALONE), (True, KERNELS), (False, KERNELS)):
        matrix.settle(CPU, several)
        exact = [kernel for kernel in kernels["cpu"] if is_exact(kernel, torch.Size(shape), CPU)]
        assert matrix.kernel is exact[0]
        assert torch.equal(matrix(x), settled(weight)(x))
    assert {kernel.name for kernel in KERNELS_ALONE["cpu"]} == set(LADDER)


def test_weights_are_laid_out_for_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = KERNELS["cpu"][-2:]  # these two are exact anywhere
    monkeypatch.setattr(int8, "KERNELS_ALONE", only(first))
    monkeypatch.setattr(int8, "KERNELS", only(other))
    module = nn.ModuleList([Int8Matrix.of(random(7, 33))])
    pack(module)
    for slots, kernel in ((1, first), (2, other), (1, other)):
        lay_out(module, slots)
        assert module[0].kernel is kernel


@pytest.mark.parametrize("name", ["halves", "wide"])
def test_what_any_processor_can_do_is_exact(name: str) -> None:
    """These two are what is left to processors without instructions for int8."""
    assert all(is_exact(KERNELS["cpu"][LADDER.index(name)], torch.Size(shape), CPU) for shape in SHAPES)


def saturating(values: Tensor, weight: Tensor) -> Tensor:
    """As processors without such instructions add up: two products at a time, in 16 bits, values shifted by 128."""
    shifted = F.pad(values.int() + 128, (0, values.shape[1] % 2))
    pairs = shifted[:, None] * F.pad(weight.int(), (0, weight.shape[1] % 2))
    in_16_bits = pairs.unflatten(-1, (-1, 2)).sum(-1).clamp(-(2**15), 2**15 - 1)
    return (in_16_bits.sum(-1) - 128 * weight.int().sum(-1)).float()


def truncated(values: Tensor, weight: Tensor) -> Tensor:
    """Sums whose last bits are cut off where float32 lacks them, in place of rounded."""
    exact = values.double() @ weight.double().t()
    nearest = exact.float()
    return torch.where(nearest.double().abs() > exact.abs(), torch.nextafter(nearest, torch.zeros(())), nearest)


def alone_wrong(values: Tensor, weight: Tensor) -> Tensor:
    return int8._wide_sums(values, weight) + (len(values) == 1)


def absent(values: Tensor, weight: Tensor) -> Tensor:
    raise NotImplementedError


FAULTS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, int]]] = {
    "16 bits are too few": (saturating, (40, 64)),
    "sums are not rounded to the nearest": (truncated, (40, 2816)),
    "one row alone is off": (alone_wrong, (40, 64)),
    "there is no such kernel": (absent, (40, 64)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_kernel_is_passed_over(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    sums, shape = FAULTS[fault]
    weight, x = random(*shape), random(3, shape[1])
    expected = settled(weight)(x)
    faulty = Kernel("faulty", int8._as_it_is, sums)
    monkeypatch.setattr(int8, "KERNELS", only(faulty, *KERNELS["cpu"]))
    matrix = settled(weight)
    assert matrix.kernel is not faulty
    assert torch.equal(matrix(x), expected)


def test_without_an_exact_kernel_the_weight_alone_is_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "KERNELS", only(Kernel("faulty", int8._as_it_is, saturating)))
    weight, x = random(40, 64), random(3, 64)
    matrix = settled(weight)
    assert matrix.way == "int8 weights"
    values, largest = quantised(weight)
    assert torch.equal(matrix(x), F.linear(x, values * (largest / LARGEST)[:, None]))


def test_other_threads_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS["cpu"][-1]
    monkeypatch.setattr(int8, "KERNELS", only(kernel))
    matrix, x = settled(random(7, 33)), random(2, 33)
    expected = matrix(x)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert torch.equal(matrix(x), expected)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 78)
    monkeypatch.setattr(int8, "is_exact", lambda *_: False)
    with pytest.raises(RuntimeError, match="not exact with 78 threads"):
        matrix(x)


def test_what_a_weight_becomes() -> None:
    weight = torch.tensor([[0.0, 0.0], [1.0, -0.5], [3e-3, 2e-3], [-254.0, 3.0]])
    values, largest = quantised(weight)
    assert values.tolist() == [[0, 0], [127, -64], [127, 85], [-127, 2]]  # halves go to the even number
    assert torch.equal(largest, torch.tensor([0.0, 1.0, 3e-3, 254.0]))


def test_a_row_of_zeros_gives_zeros_and_disturbs_no_other() -> None:
    matrix, x = settled(random(7, 33)), random(3, 33)
    expected = matrix(x)
    x[1] = 0
    found = matrix(x)
    assert not found[1].any()
    assert torch.equal(found[::2], expected[::2])
    assert rounded(x)[0].abs().amax(1).tolist() == [127, 0, 127]


def test_a_weight_of_zeros_gives_zeros() -> None:
    assert not settled(torch.zeros(7, 33))(random(3, 33)).any()


def test_packing_settles_it() -> None:
    module = nn.ModuleList([Int8Matrix.of(random(7, 33))])
    pack(module)
    pack(module)
    assert ways(module) == "int8"
    assert not any(parameter.requires_grad for parameter in module.parameters())


class CublasLike:
    """torch._int_mm with what cuBLAS asks for, on a CPU."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, values: Tensor, weight: Tensor) -> Tensor:
        assert values.dtype == weight.dtype == torch.int8
        assert len(values) > 16
        assert all(size % 8 == 0 for size in (*values.shape, *weight.shape))
        self.rows.append(len(values))
        return (values.double() @ weight.double()).to(torch.int32)


def test_a_gpus_product_has_rows_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated: any number of rows is multiplied as cuBLAS takes them, and gives what a CPU gives."""
    weight, x = random(40, 64), random(200, 64)
    expected = settled(weight)(x)
    multiply = CublasLike()
    monkeypatch.setattr(torch, "_int_mm", multiply)
    monkeypatch.setattr(int8, "_EXACT", {})  # this processor's own kernel may not be exact
    monkeypatch.setattr(int8, "KERNELS", only(*KERNELS["cuda"]))
    monkeypatch.setattr(int8, "SIZES", int8.SIZES_CUDA)
    matrix = settled(weight)
    assert matrix.kernel is int8.PLAIN
    for rows in (1, 16, 17, 33, 128, 200):
        assert torch.equal(matrix(x[:rows]), expected[:rows])
    assert set(multiply.rows) == set(int8.SIZES_CUDA)


SETTINGS = {
    "all": {},
    "no instructions for int8": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "the least": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "OMP_NUM_THREADS": "1",
    },
}
PROGRAM = "from tests.core.nn.test_int8 import fingerprint; print(*fingerprint())"


def fingerprint() -> tuple[str, str]:
    """What products give here, for values that are the same on every machine, and the ways that they take."""
    import hashlib

    digest, taken = hashlib.sha256(), set()
    for shape in SHAPES:
        for dtype in DTYPES:
            matrix = settled(probe(shape[0] * shape[1], dtype).view(shape))
            assert matrix.kernel is not None
            taken.add(matrix.kernel.name)
            for rows in (1, 4, 17):
                x = probe(rows * shape[1], dtype, number=3).view(rows, 1, -1)
                digest.update(matrix(x).float().numpy().tobytes())
    return digest.hexdigest(), "+".join(sorted(taken))


def test_the_same_bits_under_any_instructions() -> None:
    """Between processors too, as far as one can stand in for others."""
    found = {}
    for name, settings in SETTINGS.items():
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | settings,
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = ran.stdout.split(maxsplit=1)
    assert len({bits for bits, _ in found.values()}) == 1, found
