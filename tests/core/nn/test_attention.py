from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from personaplex.core.nn.attention import (
    Place,
    _attend_rows,
    attend_chunk,
    attend_few,
    attend_masked,
    attend_step,
    chunk_mask,
    hiding,
)
from personaplex.core.nn.cache import READ_BLOCK, KVCache

HEADS, DIM = 2, 4
WINDOW = 6


def cache_of(rows: int, slots: int = WINDOW) -> KVCache:
    return KVCache.zeros(1, rows, HEADS, slots, DIM, torch.device("cpu"), torch.float32)


def inputs(rows: int, positions: int, seed: int = 0) -> Tensor:
    """Queries, keys and values [3, B, H, T, D]."""
    return torch.randn(3, rows, HEADS, positions, DIM, generator=torch.Generator().manual_seed(seed))


def plain_attention(qkv: Tensor, window: int, step: int = 1) -> Tensor:
    """Each query over the keys it may see, one after the other: [3, B, H, T, D] -> [B, H, T, D]."""
    query, key, value = qkv
    out = torch.zeros_like(query)
    for q in range(query.shape[2]):
        last_written = q - q % step + step - 1
        seen = range(max(0, last_written - window + 1), q + 1)
        keys, values = key[:, :, seen], value[:, :, seen]
        weights = (query[:, :, q, None] * keys).sum(dim=-1) / DIM**0.5
        out[:, :, q] = (weights.softmax(dim=-1)[..., None] * values).sum(dim=2)
    return out


def by_step(qkv: Tensor, cache: KVCache) -> Tensor:
    """All rows, a position at a time."""
    rows = [True] * qkv.shape[1]
    out = []
    for position in range(qkv.shape[3]):
        query, key, value = qkv[:, :, :, position : position + 1]
        out.append(attend_step(query, key, value, cache, 0, Place.next(cache)))
        cache.advance(1, rows)
    return torch.cat(out, dim=2)


def by_chunk(qkv: Tensor, cache: KVCache, chunks: Sequence[int], step: int = 1) -> Tensor:
    """All rows, so many positions at a time."""
    rows = [True] * qkv.shape[1]
    out = []
    for query, key, value in qkv.split(list(chunks), dim=3):
        mask = chunk_mask(cache, query.shape[2], WINDOW, step)
        out.append(attend_chunk(query, key, value, cache, 0, mask, rows))
        cache.advance(query.shape[2], rows)
    return torch.cat(out, dim=2)


@pytest.mark.parametrize("slots", [WINDOW, 20])
def test_steps_are_a_sliding_window_over_a_ring(slots: int) -> None:
    """A ring of the window's size wraps three times; a longer one holds all, so all is seen."""
    qkv = inputs(3, 20)
    torch.testing.assert_close(by_step(qkv, cache_of(3, slots)), plain_attention(qkv, window=slots))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_any_chunks_are_a_sliding_window(chunks: list[int]) -> None:
    qkv = inputs(2, sum(chunks))
    cache = cache_of(2)
    torch.testing.assert_close(by_chunk(qkv, cache, chunks), plain_attention(qkv, WINDOW))
    assert cache.filled == cache.length.tolist() == [sum(chunks)] * 2


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_latents_of_a_frame_enter_together(frames: list[int]) -> None:
    """The older of a frame's two latents has already lost the key that the newer one pushes out."""
    chunks = [2 * n for n in frames]
    qkv = inputs(2, sum(chunks))
    torch.testing.assert_close(by_chunk(qkv, cache_of(2), chunks, step=2), plain_attention(qkv, WINDOW, step=2))


@pytest.mark.parametrize("prompt", [1, WINDOW - 1, WINDOW, 17])
def test_steps_go_on_from_a_chunk(prompt: int) -> None:
    qkv = inputs(2, 25)
    cache = cache_of(2)
    out = [by_chunk(qkv[:, :, :, :prompt], cache, [prompt]), by_step(qkv[:, :, :, prompt:], cache)]
    torch.testing.assert_close(torch.cat(out, dim=2), plain_attention(qkv, WINDOW))


def test_what_a_frame_of_the_codec_sees() -> None:
    """Context 8, so a window of 7: latents 10 and 11 both see from 5 on, itself last; a plain window sees from 4."""
    cache = KVCache.zeros(1, 1, 1, 7, DIM, torch.device("cpu"), torch.float32)
    cache.advance(10, [True])
    mask = chunk_mask(cache, 2, window=7, step=2)[0, 0]
    ring = [7, 8, 9, 3, 4, 5, 6]
    for query, row in zip((10, 11), mask, strict=True):
        seen = {position for position, visible in zip([*ring, 10, 11], row, strict=True) if visible}
        assert seen == set(range(5, query + 1))


@pytest.mark.parametrize("slots", [50, READ_BLOCK, 3 * READ_BLOCK - 5])
def test_one_row_at_a_time_equals_all_rows_masked(slots: int) -> None:
    """The first is how a CPU attends, the second how an accelerator does; some rings have wrapped."""
    lengths = [0, 1, slots // 2, slots - 1, slots, 2 * slots + 3, min(slots, READ_BLOCK) - 1, min(slots, READ_BLOCK)]
    cache = cache_of(len(lengths), slots)
    cache.keys.copy_(torch.randn(cache.keys.shape, generator=torch.Generator().manual_seed(1)))
    cache.values.copy_(torch.randn(cache.values.shape, generator=torch.Generator().manual_seed(2)))
    for row, length in enumerate(lengths):
        cache.advance(length, [other == row for other in range(len(lengths))])
    query = inputs(len(lengths), 1)[0]
    one = _attend_rows(query, cache.keys[0], cache.values[0], cache)
    torch.testing.assert_close(one, attend_masked(query, cache.keys[0], cache.values[0], hiding(cache)))


def test_an_empty_row_is_finite_and_reads_no_other() -> None:
    cache = cache_of(2)
    cache.keys.fill_(torch.nan)
    query, key, value = inputs(2, 1)
    out = attend_step(query, key, value, cache, 0, Place.next(cache))
    assert out.isfinite().all()
    assert torch.allclose(out, value)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=20))
def test_a_row_is_untouched_while_it_pauses(ticks: list[list[bool]]) -> None:
    """Rows that pause at will compute, bit for bit, what they compute alone and without pauses."""
    qkv = inputs(3, len(ticks))
    noise = inputs(3, len(ticks), seed=1)
    cache, done = cache_of(3), [0, 0, 0]
    out: list[list[Tensor]] = [[], [], []]
    for tick, active in enumerate(ticks):
        step = [qkv[:, row, :, done[row]] if on else noise[:, row, :, tick] for row, on in enumerate(active)]
        query, key, value = torch.stack(step, dim=1)[:, :, :, None]
        seen = attend_step(query, key, value, cache, 0, Place.next(cache))
        cache.advance(1, active)
        for row in (row for row, on in enumerate(active) if on):
            out[row].append(seen[row])
            done[row] += 1
    assert cache.filled == cache.length.tolist() == done
    for row, steps in enumerate(out):
        if steps:
            alone = by_step(qkv[:, row : row + 1, :, : done[row]], cache_of(1))
            assert torch.equal(torch.cat(steps, dim=1), alone[0])


def test_a_chunk_leaves_inactive_rows_alone() -> None:
    cache = cache_of(2)
    by_chunk(inputs(2, 9), cache, [9])
    keys, values = cache.keys.clone(), cache.values.clone()
    query, key, value = inputs(2, 4, seed=1)
    attend_chunk(query, key, value, cache, 0, chunk_mask(cache, 4, WINDOW, 1), [False, True])
    cache.advance(4, [False, True])
    assert torch.equal(cache.keys[:, 0], keys[:, 0])
    assert torch.equal(cache.values[:, 0], values[:, 0])
    assert not torch.equal(cache.keys[:, 1], keys[:, 1])
    assert cache.filled == cache.length.tolist() == [9, 13]


@pytest.mark.parametrize("keys", [1, 7, 8])
def test_few_keys(keys: int) -> None:
    query, key, value = inputs(5, keys)
    expected = plain_attention(inputs(5, keys), window=keys)[:, :, -1:]
    torch.testing.assert_close(attend_few(query[:, :, -1:], key, value), expected)
    assert attend_few(query[:, :, -1:].bfloat16(), key.bfloat16(), value.bfloat16()).dtype == torch.bfloat16


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keys", [1, 7, 8])
def test_few_keys_round_alike_in_every_row(keys: int, dtype: torch.dtype) -> None:
    """Equal rows stay equal, however many there are and whichever thread takes them."""
    heads, dim = 3, 16
    one = torch.randn(1, keys + 2, heads, dim, generator=torch.Generator().manual_seed(keys)).to(dtype)

    def attend(rows: int) -> Tensor:
        packed = one.expand(rows, -1, -1, -1).contiguous()
        cached = torch.empty(2, rows, heads, 8, dim, dtype=dtype)
        cached[0, :, :, :keys] = packed[:, 2:].transpose(1, 2)
        cached[1, :, :, :keys] = packed[:, 1:-1].transpose(1, 2)
        return attend_few(packed[:, 0, :, None], *cached[:, :, :, :keys])

    alone = attend(1)
    for rows in (4, 16, 64):
        assert torch.equal(attend(rows), alone.expand(rows, -1, -1, -1))
