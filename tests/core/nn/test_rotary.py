import torch

from personaplex.core.nn.rotary import Rotation

HEAD_DIM = 8


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_multiplies_pairs_as_complex_numbers() -> None:
    """Neighbours (2i, 2i + 1) are one complex number, turned by position / 10,000^(2i / head_dim)."""
    positions = torch.tensor([[0, 1, 2, 3], [2_999, 3_000, 100_000, 7]])
    x = random(2, 3, 4, HEAD_DIM)
    speed = 10_000.0 ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    turn = torch.polar(torch.ones(2, 1, 4, HEAD_DIM // 2, dtype=torch.float64), positions[:, None, :, None] * speed)
    expected = torch.view_as_real(torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * turn).flatten(-2)
    torch.testing.assert_close(Rotation.at(positions, HEAD_DIM)(x), expected.float(), rtol=0, atol=0.02)
    near = Rotation.at(positions[:1], HEAD_DIM)(x[:1])
    torch.testing.assert_close(near, expected[:1].float())


def test_position_0_turns_nothing() -> None:
    x = random(1, 2, 1, HEAD_DIM)
    assert torch.equal(Rotation.at(torch.tensor([[0]]), HEAD_DIM)(x), x)


def test_only_the_distance_counts() -> None:
    query, key = random(2, 1, 1, 1, HEAD_DIM)

    def score(q: int, k: int) -> torch.Tensor:
        turned = (Rotation.at(torch.tensor([[p]]), HEAD_DIM)(x) for p, x in ((q, query), (k, key)))
        return torch.mul(*turned).sum()

    torch.testing.assert_close(score(105, 100), score(5, 0), rtol=1e-4, atol=1e-4)
    assert (score(5, 0) - score(0, 5)).abs() > 0.01


def test_computed_in_float32_whatever_the_type() -> None:
    x = random(1, 2, 3, HEAD_DIM).bfloat16()
    rotation = Rotation.at(torch.tensor([[700, 701, 702]]), HEAD_DIM)
    assert rotation.cos.dtype == rotation.sin.dtype == torch.float32
    assert rotation(x).dtype == torch.bfloat16
    assert torch.equal(rotation(x), rotation(x.float()).bfloat16())
