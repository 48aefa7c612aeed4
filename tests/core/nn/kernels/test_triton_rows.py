"""Triton's kernels against torch's, interpreted on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.nn.norm import RMSNorm
from personaplex.core.sampling.noise import exponential

pytest.importorskip("triton")

from personaplex.core.nn.kernels import fused_check, triton_rows

TYPES = [torch.float32, torch.float16]  # the interpreter cuts bfloat16 off instead of rounding it


def some(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_the_check_finds_every_kernel_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fused_check.differing(torch.device("cpu"), torch.float16) == []
    monkeypatch.setattr(triton_rows, "gate", lambda projected: projected.chunk(2, dim=-1)[0])
    assert fused_check.differing(torch.device("cpu"), torch.float16) == ["gate"]


@pytest.mark.parametrize("dtype", TYPES)
def test_the_norm_of_a_sum(dtype: torch.dtype) -> None:
    """Of rows that lie apart, too; the sum is torch's to the bit, the norm to a unit in the last place or two."""
    x, delta = some(5, 3, 48, dtype=dtype)[:, 1, None], some(5, 1, 48, seed=1, dtype=dtype)
    norm = RMSNorm(48).to(dtype).requires_grad_(False)
    norm.alpha.copy_(some(1, 1, 48, seed=2))
    total, normed = triton_rows.add_norm(x, delta, norm.alpha)
    assert torch.equal(total, x + delta)
    torch.testing.assert_close(normed, norm(x + delta))
    total, normed = triton_rows.add_norm(x, None, norm.alpha)
    assert torch.equal(total, x)
    torch.testing.assert_close(normed, norm(x))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_is_normed_alike_in_every_batch(dtype: torch.dtype) -> None:
    x, delta, alpha = some(7, 1, 48, dtype=dtype), some(7, 1, 48, seed=1, dtype=dtype), some(48, dtype=dtype)
    together = triton_rows.add_norm(x, delta, alpha)[1]
    for row in range(7):
        one = slice(row, row + 1)
        assert torch.equal(triton_rows.add_norm(x[one], delta[one], alpha)[1], together[one])


@pytest.mark.parametrize("dtype", TYPES)
def test_the_gate(dtype: torch.dtype) -> None:
    projected = 3 * some(4, 1, 2 * 1100, dtype=dtype)
    gate, value = projected.chunk(2, dim=-1)
    torch.testing.assert_close(triton_rows.gate(projected), F.silu(gate) * value)


@pytest.mark.parametrize("dtype", TYPES)
def test_embeddings_add_up_to_the_bit(dtype: torch.dtype) -> None:
    emb, text_emb = some(16, 11, 40, dtype=dtype), some(7, 40, seed=1, dtype=dtype)
    columns = torch.randint(7, (3, 17), generator=torch.Generator().manual_seed(2))
    expected = emb[0][columns[:, 1]]
    for stream in range(2, 17):
        expected = expected + emb[stream - 1][columns[:, stream]]
    assert torch.equal(triton_rows.embed(columns, emb, text_emb), expected + text_emb[columns[:, 0]])


@pytest.mark.parametrize("stream", range(9))
def test_a_race_has_the_noise_of_its_row(stream: int) -> None:
    """Every token's, since with equal probabilities the winner is the one with the least noise: each wins in turn."""
    tokens = torch.tensor([[3, 2047, 5, 31_999, 17, 600]])
    seed, frame = torch.tensor([2**63 - 1 - 7 * stream]), torch.tensor([stream * 400])
    noise = exponential(seed, frame, stream, tokens)
    order = noise.argsort()[0]
    for rank, index in enumerate(order):
        kept = torch.where((noise < noise[0, index]), 1e-30, 1.0)
        assert triton_rows.race(kept, tokens, seed, frame, stream).item() == tokens[0, index], rank
