import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from personaplex.core.sampling.noise import LAYOUT, MAX_SEED, exponential, has_float64, philox

WORD = 2**32 - 1
words = st.integers(0, WORD)
seeds = st.integers(0, MAX_SEED)
frames = st.integers(0, 100_000)
streams = st.integers(0, 8)


def plain_philox(key: tuple[int, ...], counter: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 word by word on Python's integers, as the paper writes it."""
    k0, k1 = key
    a, b, c, d = counter
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k0, right & WORD, (left >> 32) ^ d ^ k1, left & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return a, b, c, d


def run(key: tuple[int, ...], counter: tuple[int, ...]) -> tuple[int, ...]:
    k0, k1, a, b, c, d = (torch.tensor(word) for word in (*key, *counter))
    return tuple(int(word) for word in philox((k0, k1), (a, b, c, d)))


def draw(seed: int, frame: int, stream: int, tokens: list[int]) -> Tensor:
    return exponential(torch.tensor([seed]), torch.tensor([frame]), stream, torch.tensor([tokens]))[0]


@pytest.mark.parametrize(
    ("key", "counter", "output"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 2, (WORD,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(key: tuple[int, ...], counter: tuple[int, ...], output: tuple[int, ...]) -> None:
    """The vectors published with Random123."""
    assert run(key, counter) == output
    assert plain_philox(key, counter) == output


@given(st.tuples(words, words), st.tuples(words, words, words, words))
def test_philox_equals_the_plain_algorithm(key: tuple[int, ...], counter: tuple[int, ...]) -> None:
    assert run(key, counter) == plain_philox(key, counter)


def test_layout_is_pinned() -> None:
    """These values may only change together with the layout's version."""
    assert LAYOUT == "philox4x32-10/1"
    assert MAX_SEED == 2**63 - 1
    assert torch.equal(draw(0, 0, 0, [0, 1, 2]), torch.tensor([0.9186774, 0.028151356, 3.9399378]))
    assert torch.equal(draw(42_424_242, 17, 0, [3, 31_999]), torch.tensor([0.4135972, 0.45818022]))
    assert torch.equal(draw(MAX_SEED, 2_999, 8, [0, 2_047]), torch.tensor([0.4428388, 0.6788977]))


@given(seeds, frames, streams, st.integers(0, 31_999))
def test_key_and_counter(seed: int, frame: int, stream: int, token: int) -> None:
    word = plain_philox((seed & WORD, seed >> 32), (token, frame, stream, 0))[0]
    assert draw(seed, frame, stream, [token]).item() == pytest.approx(-math.log((word + 0.5) / 2**32), rel=1e-6)


@given(st.lists(st.tuples(seeds, frames), min_size=1, max_size=5), streams, st.permutations(range(20)))
def test_a_draw_depends_on_its_own_row_and_token_alone(
    rows: list[tuple[int, int]], stream: int, order: list[int]
) -> None:
    seed, frame = torch.tensor(rows).T
    noise = exponential(seed, frame, stream, torch.tensor(order).expand(len(rows), -1))
    for row, (own_seed, own_frame) in enumerate(rows):
        assert torch.equal(noise[row], draw(own_seed, own_frame, stream, list(range(20)))[order])


def test_every_part_of_the_key_counts() -> None:
    one = draw(5, 6, 7, [8])
    others = [
        draw(4, 6, 7, [8]),
        draw(5 + 2**32, 6, 7, [8]),
        draw(5, 7, 7, [8]),
        draw(5, 6, 8, [8]),
        draw(5, 6, 7, [9]),
    ]
    assert all(not torch.equal(one, other) for other in others)


def test_distribution() -> None:
    """Exp(1): mean 1, variance 1, and a tenth of all draws between neighbouring deciles."""
    noise = exponential(torch.arange(100), torch.arange(100), 3, torch.arange(2000).expand(100, -1))
    assert noise.shape == (100, 2000)
    assert noise.dtype == torch.float32
    assert noise.min() > 0
    assert noise.isfinite().all()
    assert noise.mean().item() == pytest.approx(1, abs=0.01)
    assert noise.var().item() == pytest.approx(1, abs=0.03)
    deciles = [0.0, *(-math.log(1 - n / 10) for n in range(1, 10)), math.inf]
    for low, high in pairwise(deciles):
        share = ((noise >= low) & (noise < high)).float().mean().item()
        assert share == pytest.approx(0.1, abs=0.003)


def test_extremes_are_finite_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words 0 and 2^32 - 1 are too rare to draw; they are put in the generator's place."""
    for word in (0, WORD):
        monkeypatch.setattr(
            "personaplex.core.sampling.noise.philox", lambda key, counter, word=word: (torch.tensor([[word]]),)
        )
        noise = draw(0, 0, 0, [0])
        assert noise.isfinite().all()
        assert (noise > 0).all()


class OnApplesGpu(Tensor):
    """A tensor that, as there, has no float64 before it is brought to the CPU."""

    def double(self, *_: object, **__: object) -> Tensor:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    def cpu(self, *_: object, **__: object) -> Tensor:
        return self.as_subclass(Tensor)


def test_a_device_without_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the CPU's bits."""
    assert [has_float64(torch.device(name)) for name in ("cpu", "cuda", "cuda:1", "mps")] == [True, True, True, False]
    seed, frame, tokens = torch.tensor([MAX_SEED, 5]), torch.tensor([17, 2_999]), torch.arange(2_000).expand(2, -1)
    expected = exponential(seed, frame, 3, tokens)
    there = [tensor.as_subclass(OnApplesGpu) for tensor in (seed, frame, tokens)]
    with pytest.raises(TypeError, match="float64"):
        exponential(there[0], there[1], 3, there[2])
    monkeypatch.setattr("personaplex.core.sampling.noise.has_float64", lambda device: False)
    assert torch.equal(exponential(there[0], there[1], 3, there[2]), expected)
