import pytest
import torch
from torch import Tensor

from personaplex.core.nn.rows import PerRow


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def by_rows(x: Tensor) -> Tensor:
    """Off by the number of rows."""
    return x * (1 + 2**-20 * len(x))


def by_place(x: Tensor) -> Tensor:
    """A vector kernel for whole groups of 16 values and a scalar one, which rounds otherwise, for the rest."""
    flat = x.flatten()
    rest = torch.arange(len(flat)) >= len(flat) // 16 * 16
    return torch.where(rest, flat * (1 + 2**-20), flat).view(x.shape)


def by_neighbours(x: Tensor) -> Tensor:
    return x * (1 + 2**-20 * x.abs().max().round())


@pytest.mark.parametrize("function", [by_rows, by_place, by_neighbours])
def test_a_planted_fault_is_caught(function: object) -> None:
    careful = PerRow(function)
    x = random(13, 23)
    alone = torch.cat([function(row[None]) for row in x])
    assert not torch.equal(function(x), alone)
    for rows in (1, 2, 3, 8, 13):
        assert torch.equal(careful(x[:rows]), alone[:rows])


@pytest.mark.parametrize("function", [torch.exp, torch.cos, torch.sin, lambda x: torch.log(x.double())])
@pytest.mark.parametrize("width", [1, 8, 37, 183, 1000])
def test_a_row_is_the_same_among_any_others(function: object, width: int) -> None:
    careful, x = PerRow(function), 3 * random(16, width).abs()
    alone = torch.cat([function(row[None]) for row in x])
    for rows in (1, 3, 8, 13, 16):
        assert torch.equal(careful(x[:rows]), alone[:rows])


def test_rows_are_computed_together_where_that_changes_nothing() -> None:
    calls: list[int] = []

    def doubled(x: Tensor, y: Tensor) -> Tensor:
        calls.append(len(x))
        return 2 * x + y

    careful = PerRow(doubled)
    for _ in range(2):
        calls.clear()
        careful(random(5, 4, 3), random(5, 4, 6)[..., ::2])
    assert calls == [5]


def test_a_layout_is_checked_by_itself() -> None:
    """Rows that lie otherwise in memory may be computed by another loop."""

    def by_layout(x: Tensor) -> Tensor:
        return x if x.is_contiguous() else by_rows(x)

    careful = PerRow(by_layout)
    x = random(6, 8)
    assert torch.equal(careful(x[:, :4].contiguous()), x[:, :4])
    assert torch.equal(careful(x[:, :4]), x[:, :4])
