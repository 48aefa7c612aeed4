from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from personaplex.core.nn import products
from personaplex.core.nn.products import Matrix, Packable, Way, linear, pack, ways

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Multiply = Callable[[Tensor, Tensor], Tensor]

HALF = torch.bfloat16
DTYPES = (torch.float32, HALF)
# (out, in): wide and narrow, none a multiple of a kernel's tile, and one in which a row alone is cut along its width.
SHAPES = ((7, 33), (183, 64), (130, 352), (1024, 2816))


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have found out of this machine's kernels is not known here."""
    monkeypatch.setattr(products, "_WAYS", {})
    monkeypatch.setattr(products, "_AT_ONCE", {})


def faulty(multiply: Multiply, fault: Callable[[Tensor], Tensor]) -> Multiply:
    """Products off by a relative 2^-7 in the rows that `fault` makes true of them, [R, in] -> bool [R]."""

    def off(x: Tensor, weight: Tensor) -> Tensor:
        rows = fault(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
        return torch.where(rows[..., None], multiply(x, weight) * (1 + 2**-7), multiply(x, weight))

    return off


def every(rows: bool, x: Tensor) -> Tensor:
    return torch.full((len(x),), rows)


def at(places: Tensor, x: Tensor) -> Tensor:
    return torch.isin(torch.arange(len(x)), places)


# What a kernel may do to rows, and the fewest products that 16 of them then need.
FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "one row alone is rounded otherwise": (lambda x: every(len(x) == 1, x), 1),
    "up to three rows are rounded otherwise": (lambda x: every(len(x) < 4, x), 1),
    "twelve rows and more are rounded otherwise": (lambda x: every(len(x) >= 12, x), 2),
    "more than a row is rounded by its place": (lambda x: at(torch.tensor([2, 5, 11]), x) & (len(x) > 1), 16),
    "the last row of an odd number is a rest": (lambda x: at(torch.tensor([len(x) - 1]), x) & (len(x) % 2 == 1), 1),
    "a row's rounding hangs on the largest of all": (lambda x: x.abs().amax(1) < x.abs().max(), 16),
    "each number of rows has a rounding of its own": (lambda x: every(len(x) in {2, 4, 8, 16}, x), 1),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """A library with a fault: the rows of each product that it was asked for, and the fewest that 16 need."""
    asked: list[int] = []
    planted, fewest = FAULTS[request.param]
    multiply = faulty(products._multiply, planted)

    def recorded(x: Tensor, weight: Tensor) -> Tensor:
        asked.append(len(x))
        return multiply(x, weight)

    monkeypatch.setattr(products, "_multiply", recorded)
    return asked, fewest


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_planted_fault_is_caught(fault: tuple[list[int], int], dtype: torch.dtype) -> None:
    """A row gives the same bits among any others, at the cost of more products."""
    asked, fewest = fault
    matrix, x = Matrix(random(40, 64, dtype=dtype)), random(64, 64, dtype=dtype)
    alone = torch.cat([matrix(row[None]) for row in x])
    for rows in (1, 2, 3, 5, 8, 13, 16, 33, 64):
        for first in (0, 7, 31):
            part = x.roll(-first, 0)[:rows]
            matrix(part)
            assert torch.equal(matrix(part), alone.roll(-first, 0)[:rows]), rows
    asked.clear()
    matrix(x[:16])
    assert len(asked) >= fewest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("two_threads")
def test_a_row_rounds_alike_among_any_others(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix, wild = Matrix(random(*shape, dtype=dtype)), 100 * random(1, 40, shape[1], dtype=dtype)[0]
    row = random(1, shape[1], dtype=dtype)
    alone = matrix(row)
    for rows in range(1, 41):
        for place in {0, rows // 2, rows - 1}:
            x = wild[:rows].clone()
            x[place] = row
            assert torch.equal(matrix(x)[place], alone[0])
            assert torch.equal(matrix(x[:, None])[place, 0], alone[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [(4,), (2, 3), (1, 1), (1, 5)])
def test_a_matrix_multiplies(dtype: torch.dtype, rows: tuple[int, ...]) -> None:
    weight, x = random(7, 33, dtype=dtype), random(*rows, 33, dtype=dtype)
    expected = F.linear(x, weight)
    assert torch.equal(linear(x, weight), expected)
    found = linear(x, Matrix(weight))
    assert (found.dtype, found.shape) == (dtype, expected.shape)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("block", "quickest", "paid"), [(1, 1, 1), (1, 4, 4), (2, 1, 2), (2, 4, 4), (8, 1, 8)])
def test_one_call_pays_for_the_quickest_of_what_bits_allow(
    monkeypatch: pytest.MonkeyPatch, block: int, quickest: int, paid: int
) -> None:
    rows: list[int] = []
    multiply = products._multiply
    monkeypatch.setattr(products, "_seconds", lambda weight, size: abs(size - quickest))
    matrix = Matrix(random(7, 33))
    matrix.way = Way(matrix.way.layout, block)
    matrix.at_once(1)
    monkeypatch.setattr(products, "_multiply", lambda x, weight: (rows.append(len(x)), multiply(x, weight))[1])
    assert torch.equal(matrix(random(1, 1, 33)), matrix(random(1, 1, 33).expand(9, 1, 33))[:1])
    assert rows[0] == paid


class Part(Packable):
    """One matrix, one stack, and a parameter that is neither."""

    matrices = ("one",)
    stacks = ("several",)

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.one = nn.Parameter(random(6, 4, dtype=dtype), requires_grad=False)
        self.several = nn.Parameter(random(3, 5, 4, dtype=dtype), requires_grad=False)
        self.scale = nn.Parameter(random(4, dtype=dtype), requires_grad=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_module_is_packed_with_all_its_parts(dtype: torch.dtype) -> None:
    plain, module = nn.ModuleList([Part(dtype), nn.ModuleList([Part(dtype)])]), nn.ModuleList([Part(dtype)])
    module.append(nn.ModuleList([Part(dtype)]))
    pack(module)
    pack(module)  # once more changes nothing
    x = random(4, 4, dtype=dtype)
    for before, after in ((plain[0], module[0]), (plain[1][0], module[1][0])):
        torch.testing.assert_close(linear(x, after.one), linear(x, before.one), rtol=0.02, atol=0.02)
        assert len(after.several) == 3
        for step in range(3):
            torch.testing.assert_close(
                linear(x, after.several[step]), linear(x, before.several[step]), rtol=0.02, atol=0.02
            )
        assert torch.equal(after.scale, before.scale)
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_a_device_with_kernels_of_its_own_is_left_alone() -> None:
    module = Part(torch.float32).to("meta")
    pack(module)
    assert isinstance(module.one, nn.Parameter)
    assert ways(module) == ""


@pytest.mark.parametrize("missing", [AttributeError, NotImplementedError, RuntimeError])
def test_a_torch_without_the_kernels_runs_unpacked(monkeypatch: pytest.MonkeyPatch, missing: type[Exception]) -> None:
    def fail(_weight: torch.Tensor) -> torch.Tensor:
        raise missing

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", fail, raising=False)
    matrix = Matrix(random(7, 33, dtype=HALF))
    assert matrix.way.layout == "plain"
    torch.testing.assert_close(matrix(random(3, 33, dtype=HALF)), F.linear(random(3, 33, dtype=HALF), matrix.weight))


def test_the_ways_are_told() -> None:
    module = nn.ModuleList([Matrix(random(6, 4)), Matrix(random(6, 4)), Matrix(random(9, 4))])
    module[0].way, module[2].way = Way("plain", 8), Way("packed", 2)
    module[1].way = Way("packed", 2)
    assert ways(module) == "packed/2, plain/8"
