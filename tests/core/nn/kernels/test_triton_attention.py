"""Triton's attention, interpreted on a CPU: what it computes, and that a row's bits are the row's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from personaplex.core.nn.attention import Place, attend_few, attend_step
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.packed import heads_of
from personaplex.core.nn.rotary import Rotation

pytest.importorskip("triton")

from personaplex.core.nn.kernels import triton_attention
from personaplex.core.nn.kernels.triton_attention import SPLIT

HEADS, DIM = 2, 24
TYPES = [torch.float32, torch.float16]  # the interpreter cuts bfloat16 off instead of rounding it


def cache_of(lengths: list[int], slots: int, dtype: torch.dtype, seed: int = 0) -> KVCache:
    """Two layers of rings full of noise, and of something else where nothing has been written."""
    cache = KVCache.zeros(2, len(lengths), HEADS, slots, DIM, torch.device("cpu"), dtype)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(length)
        shape = (2, 2, HEADS, min(slots, length), DIM)
        cache.keys.fill_(torch.nan) if row == 0 else None
        cache.values.fill_(6e4) if row == 0 else None
        filling = torch.randn(shape, generator=generator).to(dtype)
        cache.keys[:, row, :, : shape[3]], cache.values[:, row, :, : shape[3]] = filling
    cache.filled = list(lengths)
    cache.length.copy_(torch.tensor(lengths))
    return cache


def packed_of(lengths: list[int], dtype: torch.dtype) -> Tensor:
    """Each row's follows from its length."""
    rows = [torch.randn(1, 3 * HEADS * DIM, generator=torch.Generator().manual_seed(10_000 + n)) for n in lengths]
    return torch.stack(rows).to(dtype)


def attend(lengths: list[int], slots: int, dtype: torch.dtype) -> tuple[Tensor, KVCache]:
    """[B, 1, H · D], and the cache afterwards."""
    cache = cache_of(lengths, slots, dtype)
    rotation = Rotation.at(cache.length[:, None], DIM)
    return triton_attention.attend_step(packed_of(lengths, dtype), rotation, cache, 1), cache


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("slots", [40, SPLIT, 2 * SPLIT + 40])
def test_it_is_attention(slots: int, dtype: torch.dtype) -> None:
    """As a CPU's, row by row, to the rounding; what is written to the ring, and where, too. Some rings have wrapped."""
    lengths = [0, 1, 39, slots - 1, slots, slots + 7, 3 * slots + SPLIT // 2]
    found, cache = attend(lengths, slots, dtype)
    plain = cache_of(lengths, slots, dtype)
    rotation = Rotation.at(plain.length[:, None], DIM)
    query, key, value = heads_of(packed_of(lengths, dtype), HEADS)
    expected = attend_step(rotation(query), rotation(key), value, plain, 1, Place.next(plain))
    # In half precision torch's kernel rounds the weights, ours doesn't.
    near = {} if dtype is torch.float32 else {"rtol": 0, "atol": 1e-3}
    torch.testing.assert_close(found, expected.transpose(1, 2).flatten(2), **near)
    torch.testing.assert_close(cache.keys, plain.keys, equal_nan=True)
    assert torch.equal(cache.values, plain.values)
    assert torch.equal(cache.keys[0].nan_to_num(), plain.keys[0].nan_to_num())  # the other layer


def test_a_rows_bits_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the neighbours, the number of rows, the row's place, the ring's length and the programs for a head."""
    lengths, slots, dtype = [0, SPLIT - 1, SPLIT, 2 * SPLIT + 30], 2 * SPLIT + 40, torch.float32
    alone = {length: attend([length], slots, dtype)[0][0] for length in lengths}
    for programs in (1, 1024):
        monkeypatch.setattr(triton_attention, "PROGRAMS", programs)
        for together in (lengths[::-1], [700, *lengths[1:3], 1]):
            found, _ = attend(together, slots, dtype)
            for row, length in enumerate(together):
                assert torch.equal(found[row], alone.get(length, found[row]))
    for ring in (SPLIT, 2 * SPLIT - 8, 3 * SPLIT):
        fitting = [length for length in lengths if length < ring]
        found, _ = attend(fitting, ring, dtype)
        for row, length in enumerate(fitting):
            assert torch.equal(found[row], alone[length])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("position", [0, 1, 7])
def test_a_few_steps(position: int, dtype: torch.dtype) -> None:
    keys, values = torch.randn(2, 3, HEADS, 8, DIM, generator=torch.Generator().manual_seed(1)).to(dtype)
    packed = packed_of([1, 2, 3], dtype)
    query, key, value = heads_of(packed, HEADS)
    found = triton_attention.attend_few(packed, keys, values, position)
    assert torch.equal(keys[:, :, position], key[:, :, 0])
    assert torch.equal(values[:, :, position], value[:, :, 0])
    expected = attend_few(query, keys[:, :, : position + 1], values[:, :, : position + 1])
    torch.testing.assert_close(found, expected.transpose(1, 2).flatten(2))
    one = triton_attention.attend_few(packed[1:2], keys[1:2].clone(), values[1:2].clone(), position)
    assert torch.equal(one, found[1:2])
