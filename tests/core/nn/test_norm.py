import math

import pytest
import torch

from personaplex.core.nn.norm import RMSNorm


def norm_of(alpha: list[float], dtype: torch.dtype = torch.float32) -> RMSNorm:
    norm = RMSNorm(len(alpha)).requires_grad_(False).to(dtype)
    norm.alpha.copy_(torch.tensor(alpha))
    return norm


def test_formula() -> None:
    norm = norm_of([1.0, 2.0, -0.5])
    rows = [[3.0, -4.0, 12.0], [0.001, 0.0, -0.002]]
    for x, y in zip(rows, norm(torch.tensor([rows]))[0].tolist(), strict=True):
        scale = 1 / math.sqrt(1e-8 + sum(value**2 for value in x) / 3)
        assert y == pytest.approx([alpha * value * scale for alpha, value in zip([1.0, 2.0, -0.5], x, strict=True)])


def test_epsilon_counts_for_tiny_values() -> None:
    assert norm_of([1.0, 1.0])(torch.full((1, 1, 2), 1e-4))[0, 0, 0].item() == pytest.approx(1e-4 / math.sqrt(2e-8))
    assert torch.equal(norm_of([1.0, 1.0])(torch.zeros(1, 1, 2)), torch.zeros(1, 1, 2))


def test_computed_in_float32_and_cast_at_the_end() -> None:
    alpha = [0.9, 1.1, 1.05, 0.95] * 64
    norm = norm_of(alpha, torch.bfloat16)
    x = (torch.randn(2, 5, 256, generator=torch.Generator().manual_seed(0)) * 30).bfloat16()
    wide = norm_of(norm.alpha.float().flatten().tolist())(x.float())
    assert norm(x).dtype == torch.bfloat16
    assert torch.equal(norm(x), wide.bfloat16())
