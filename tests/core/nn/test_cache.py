import pytest
import torch

from personaplex.core.nn.cache import KVCache

SHAPE = {"layers": 2, "heads": 3, "head_dim": 4, "device": torch.device("cpu"), "dtype": torch.float32}


def cache_of(rows: int, slots: int, length: int = 0, seed: int = 0) -> KVCache:
    """Every row `length` positions long, its keys and values random."""
    cache = KVCache.zeros(rows=rows, slots=slots, **SHAPE)
    assert not cache.keys.any()
    assert not cache.values.any()
    generator = torch.Generator().manual_seed(seed)
    cache.keys.normal_(generator=generator)
    cache.values.normal_(generator=generator)
    cache.advance(length, [True] * rows)
    return cache


def test_rows_have_lengths_of_their_own() -> None:
    cache = cache_of(3, 5)
    cache.advance(4, [True, False, True])
    cache.advance(3, [False, False, True])
    assert cache.filled == cache.length.tolist() == [4, 0, 7]
    cache.reset([2])
    assert cache.filled == cache.length.tolist() == [4, 0, 0]
    assert cache.slots == 5


@pytest.mark.parametrize(
    ("source_slots", "length", "slots"), [(8, 5, 8), (8, 5, 12), (12, 5, 5), (8, 8, 12), (12, 8, 8), (8, 30, 8)]
)
def test_copy_row(source_slots: int, length: int, slots: int) -> None:
    source, target = cache_of(2, source_slots, length, seed=1), cache_of(3, slots, 2, seed=2)
    before = target.keys.clone(), target.values.clone()
    target.copy_row(1, source, 0)
    used = min(length, slots)
    assert torch.equal(target.keys[:, 1, :, :used], source.keys[:, 0, :, :used])
    assert torch.equal(target.values[:, 1, :, :used], source.values[:, 0, :, :used])
    assert target.filled == target.length.tolist() == [2, length, 2]
    for row in (0, 2):
        assert torch.equal(target.keys[:, row], before[0][:, row])
        assert torch.equal(target.values[:, row], before[1][:, row])


@pytest.mark.parametrize(("source_slots", "length", "slots"), [(8, 9, 12), (12, 9, 8), (12, 30, 8), (8, 30, 12)])
def test_copy_row_refuses_a_ring_in_which_positions_move(source_slots: int, length: int, slots: int) -> None:
    source, target = cache_of(1, source_slots, length, seed=1), cache_of(1, slots, 2, seed=2)
    before = target.keys.clone()
    with pytest.raises(ValueError, match=f"{length} positions in a ring of {source_slots} do not fit one of {slots}"):
        target.copy_row(0, source, 0)
    assert torch.equal(target.keys, before)
    assert target.filled == [2]
