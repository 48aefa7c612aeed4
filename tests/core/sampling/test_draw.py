import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from personaplex.core.errors import UsageError
from personaplex.core.sampling.draw import Sampling
from personaplex.core.sampling.noise import exponential

TEXT, AUDIO = 0, 1
ROWS = 64


def logits_of(rows: int, vocabulary: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 2


def choose(sampling: Sampling, logits: Tensor, stream: int, first_seed: int = 0, frame: int = 5) -> Tensor:
    """Row n has the seed first_seed + n."""
    seeds = first_seed + torch.arange(len(logits))
    return sampling.choose(logits, stream, seeds, torch.full_like(seeds, frame))


@pytest.mark.parametrize("stream", [TEXT, AUDIO, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_greedy_is_argmax(stream: int, dtype: torch.dtype) -> None:
    logits = logits_of(ROWS, 100).to(dtype)
    for sampling in (Sampling(greedy=True), Sampling(temp_text=0, temp_audio=0)):
        tokens = choose(sampling, logits, stream)
        assert tokens.dtype == torch.int64
        assert torch.equal(tokens, logits.argmax(dim=-1))


@pytest.mark.parametrize("stream", [TEXT, AUDIO])
def test_top_1_is_argmax(stream: int) -> None:
    logits = logits_of(ROWS, 100)
    assert torch.equal(choose(Sampling(top_k_text=1, top_k_audio=1), logits, stream), logits.argmax(dim=-1))


def test_a_temperature_of_0_is_greedy_for_its_streams_alone() -> None:
    logits = logits_of(ROWS, 100)
    best = logits.argmax(dim=-1)
    text, audio = Sampling(temp_text=0, temp_audio=2), Sampling(temp_text=2, temp_audio=0)
    assert torch.equal(choose(text, logits, TEXT), best)
    assert not torch.equal(choose(text, logits, AUDIO), best)
    assert torch.equal(choose(audio, logits, AUDIO), best)
    assert not torch.equal(choose(audio, logits, TEXT), best)


@pytest.mark.parametrize(("stream", "top_k"), [(TEXT, 3), (AUDIO, 7)])
def test_never_beyond_the_top_k(stream: int, top_k: int) -> None:
    logits = logits_of(2000, 50)
    tokens = choose(Sampling(temp_text=50, top_k_text=3, temp_audio=50, top_k_audio=7), logits, stream)
    rank = (logits > logits.gather(1, tokens[:, None])).sum(dim=1)
    assert set(rank.tolist()) == set(range(top_k))


@pytest.mark.parametrize("top_k", [0, 50, 51, 10_000])
def test_a_top_k_of_0_or_the_whole_vocabulary_keeps_all(top_k: int) -> None:
    logits = torch.zeros(2000, 50)
    tokens = choose(Sampling(top_k_text=top_k, top_k_audio=1), logits, TEXT)
    assert set(tokens.tolist()) == set(range(50))


@pytest.mark.parametrize("stream", [TEXT, 4])
@given(temperature=st.floats(0.1, 4), top_k=st.integers(1, 40), first_seed=st.integers(0, 2**62))
def test_an_exponential_race_keyed_by_token(stream: int, temperature: float, top_k: int, first_seed: int) -> None:
    logits = logits_of(8, 40)
    seeds, frames = first_seed + torch.arange(8), torch.arange(8)
    sampling = Sampling(temperature, top_k, temperature, top_k)
    race = (logits / temperature).softmax(dim=-1) / exponential(seeds, frames, stream, torch.arange(40).expand(8, -1))
    beyond = logits < logits.sort(dim=-1, descending=True).values[:, top_k - 1, None]
    assert torch.equal(sampling.choose(logits, stream, seeds, frames), race.masked_fill(beyond, -1).argmax(dim=-1))


@given(st.lists(st.integers(0, 31), min_size=1, max_size=8))
def test_a_row_depends_on_nothing_else_in_the_batch(rows: list[int]) -> None:
    logits, seeds, frames = logits_of(32, 300), torch.arange(32) * 7, torch.arange(32) % 5
    for stream in (TEXT, AUDIO):
        whole = Sampling().choose(logits, stream, seeds, frames)
        assert torch.equal(Sampling().choose(logits[rows], stream, seeds[rows], frames[rows]), whole[rows])


def test_seed_frame_and_stream_count() -> None:
    logits, sampling = torch.zeros(ROWS, 100), Sampling(top_k_text=0, top_k_audio=0)
    one = choose(sampling, logits, TEXT)
    assert torch.equal(choose(sampling, logits, TEXT), one)
    for other in (
        choose(sampling, logits, TEXT, first_seed=1000),
        choose(sampling, logits, TEXT, frame=6),
        choose(sampling, logits, AUDIO),
    ):
        assert (other != one).float().mean() > 0.9


@pytest.mark.parametrize(
    ("stream", "sampling", "temperature", "top_k"),
    [
        (TEXT, Sampling(), 0.7, 8),
        (TEXT, Sampling(temp_text=1.5, top_k_text=5, temp_audio=0.1, top_k_audio=1), 1.5, 5),
        (AUDIO, Sampling(temp_text=0.1, top_k_text=1), 0.8, 8),
        (8, Sampling(temp_text=0.1, top_k_text=1, temp_audio=1.0, top_k_audio=6), 1.0, 6),
    ],
)
@pytest.mark.parametrize("vary", ["seeds", "frames"])
def test_distribution(stream: int, sampling: Sampling, temperature: float, top_k: int, vary: str) -> None:
    """Chi-square over 20,000 draws, by seed or by frame: softmax of the top k, below the 99.9 % point."""
    count, logits = 20_000, torch.tensor([1.2, -0.5, 0.3, 0.9, -1.0, 0.0, 0.6, -0.2])
    numbers, fixed = torch.arange(count), torch.full((count,), 11)
    seeds, frames = (numbers, fixed) if vary == "seeds" else (fixed, numbers)
    tokens = sampling.choose(logits.expand(count, -1), stream, seeds, frames)
    kept = logits.sort(descending=True).indices[:top_k]
    expected = torch.zeros(8)
    expected[kept] = (logits[kept] / temperature).softmax(dim=0) * count
    found = torch.bincount(tokens, minlength=8)
    assert found[expected == 0].sum() == 0
    statistic = ((found[kept] - expected[kept]).square() / expected[kept]).sum()
    limits = {5: 18.47, 6: 20.52, 8: 24.32}
    assert statistic < limits[top_k]


def test_top_p_keeps_the_likeliest_that_make_up_the_share() -> None:
    """Of a half, a quarter, an eighth …, of which top-k leaves four; the shares are of these four's sum, 15/16."""
    logits = (0.5 ** torch.arange(1, 9)).log().expand(2000, 8)
    for share, kept in ((0.5, 1), (0.54, 2), (0.75, 2), (0.81, 3), (0.9, 3), (0.95, 4), (1.0, 4)):
        drawn = choose(Sampling(temp_text=1, top_k_text=4, top_p_text=share), logits, TEXT)
        assert set(drawn.tolist()) == set(range(kept)), share


def test_top_p_is_of_the_text_alone_and_draws_as_without_it() -> None:
    logits = logits_of(ROWS, 100)
    plain, nucleus = Sampling(), Sampling(top_p_text=0.3)
    assert torch.equal(choose(nucleus, logits, AUDIO), choose(plain, logits, AUDIO))
    drawn, before = choose(nucleus, logits, TEXT), choose(plain, logits, TEXT)
    assert not torch.equal(drawn, before)
    probabilities, order = torch.softmax(logits / 0.7, dim=-1).topk(25)
    inside = probabilities.cumsum(dim=-1) - probabilities < 0.3 * probabilities.sum(dim=-1, keepdim=True)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, order, inside)
    was_kept = kept.gather(1, before[:, None])[:, 0]
    assert torch.equal(drawn[was_kept], before[was_kept])  # whoever won the race among all wins it among fewer
    assert kept.gather(1, drawn[:, None]).all()


@pytest.mark.parametrize(
    ("field", "option", "values"),
    [
        ("top_p_text", "--topp-text", [0, -0.1, 1.1, math.nan]),
        ("repetition_penalty", "--repetition-penalty", [0.9, 0, -1, math.inf, math.nan]),
        ("no_repeat_ngram", "--no-repeat-ngram", [-1]),
    ],
)
def test_impossible_values_against_loops(field: str, option: str, values: list[float]) -> None:
    for value in values:
        with pytest.raises(UsageError, match=f"{option} is {value}") as raised:
            Sampling(**{field: value})
        assert raised.value.mend


@pytest.mark.parametrize("value", [-0.1, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("stream", ["text", "audio"])
def test_impossible_temperatures(stream: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--temp-{stream} is {value}") as raised:
        Sampling(**{f"temp_{stream}": value})
    assert raised.value.mend


@pytest.mark.parametrize("stream", ["text", "audio"])
def test_impossible_top_k(stream: str) -> None:
    with pytest.raises(UsageError, match=f"--topk-{stream} is -1") as raised:
        Sampling(**{f"top_k_{stream}": -1})
    assert raised.value.mend


def test_defaults() -> None:
    assert Sampling() == Sampling(
        temp_text=0.7,
        top_k_text=25,
        temp_audio=0.8,
        top_k_audio=250,
        greedy=False,
        top_p_text=1,
        repetition_penalty=1,
        no_repeat_ngram=0,
    )
    assert not Sampling().avoids_repetition
