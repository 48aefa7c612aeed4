"""Attention compiled for bfloat16 on a CPU, against torch's in float32."""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from personaplex.core.nn.attention import Place, attend_step
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.kernels import compiled

HALF = torch.bfloat16
ROWS, HEADS, SLOTS, DIM = 3, 2, 70, 32
USED = [5, 70, 1]


def half(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(HALF)


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """A query, keys and values."""
    shape = (ROWS, HEADS, SLOTS, DIM)
    return half(ROWS, HEADS, 1, DIM, seed=1), half(*shape, seed=2), half(*shape, seed=3)


def test_rows_attend_to_their_own_keys(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    query, keys, values = inputs
    out = compiled.attend(query, keys, values, USED)
    for row, used in enumerate(USED):
        one = slice(row, row + 1)
        exact = scaled_dot_product_attention(
            query[one].float(), keys[one, :, :used].float(), values[one, :, :used].float()
        )
        torch.testing.assert_close(out[one].float(), exact, rtol=2**-7, atol=1e-4)


def test_what_a_row_does_not_use_is_not_read(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    query, keys, values = inputs
    expected = compiled.attend(query, keys, values, USED)
    for row, used in enumerate(USED):
        keys[row, :, used:] = torch.nan
        values[row, :, used:] = torch.nan
    assert torch.equal(compiled.attend(query, keys, values, USED), expected)


@pytest.mark.usefixtures("two_threads")
def test_a_row_is_the_same_among_others_and_alone(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    query, keys, values = inputs
    together = compiled.attend(query, keys, values, USED)
    for row, used in enumerate(USED):
        one = slice(row, row + 1)
        assert torch.equal(compiled.attend(query[one], keys[one], values[one], [used]), together[one])


def test_large_scores_do_not_overflow() -> None:
    query, keys = torch.full((1, HEADS, 1, DIM), 60.0, dtype=HALF), torch.full((1, HEADS, 4, DIM), 60.0, dtype=HALF)
    keys[:, :, 2] = -60
    values = half(1, HEADS, 4, DIM, seed=4)
    exact = values[:, :, [0, 1, 3]].float().mean(dim=2, keepdim=True)
    torch.testing.assert_close(compiled.attend(query, keys, values, [4]).float(), exact, rtol=2**-7, atol=1e-3)


def test_without_numba_torch_attends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two differ in rounding only, and each is what `attend_step` chooses."""
    qkv = half(3, ROWS, HEADS, 20, DIM, seed=5)
    found = []
    for installed in (True, False):
        monkeypatch.setattr(compiled, "_is_installed", lambda installed=installed: installed)
        assert compiled.is_used(HALF) == installed
        assert not compiled.is_used(torch.float32)
        cache = KVCache.zeros(1, ROWS, HEADS, 15, DIM, torch.device("cpu"), HALF)
        steps = []
        for position in range(20):
            steps.append(attend_step(*qkv[:, :, :, position : position + 1].unbind(), cache, 0, Place.next(cache)))
            cache.advance(1, [True] * ROWS)
        found.append(torch.cat(steps, dim=2))
    torch.testing.assert_close(*found, rtol=2**-6, atol=1e-2)
    assert not torch.equal(*found)


ONE_CALL = """
import torch
from personaplex.core.nn.kernels import compiled
query, keys = torch.ones(1, 1, 1, 8).bfloat16(), torch.ones(1, 1, 2, 8).bfloat16()
compiled.attend(query, keys, keys, [2])
print(torch.get_num_threads())
"""


def test_torch_keeps_its_threads() -> None:
    """How many share a product shows in its last bits, so the first call must not change it for what follows."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", ONE_CALL], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
