"""Triton's product, interpreted on a CPU: what it computes, and that a row's bits are the row's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from personaplex.core.nn.kernels.triton_product import ROWS, product

INNER, OUTER = 200, 70


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_is_a_product(dtype: torch.dtype) -> None:
    x, weight = some(5, 1, INNER).to(dtype), some(OUTER, INNER, seed=1).to(dtype)
    found = product(x, weight)
    assert found.shape == (5, 1, OUTER)
    torch.testing.assert_close(found.double(), x.double() @ weight.double().T, rtol=1e-3, atol=1e-2)


def test_a_rows_bits_are_its_own() -> None:
    """Alone, and among as many others as take a second tile."""
    x, weight = some(ROWS + 3, INNER), some(OUTER, INNER, seed=1)
    together = product(x, weight)
    for row in (0, 1, ROWS - 1, ROWS, ROWS + 2):
        assert torch.equal(product(x[row : row + 1], weight)[0], together[row])
    assert torch.equal(product(x[5:21], weight), together[5:21])
