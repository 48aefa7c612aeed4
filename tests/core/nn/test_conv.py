from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.nn.conv import CausalConv1d, CausalConvTranspose1d

SHAPES = [(7, 1), (3, 1), (1, 1), (4, 2), (8, 4), (12, 6)]
Convolution = CausalConv1d | CausalConvTranspose1d

cuts = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def random(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1, 1, generator=generator)
    return module.requires_grad_(False)


def down(kernel: int, stride: int, bias: bool = True) -> CausalConv1d:
    module = random(CausalConv1d(2, 3, kernel, stride, bias))
    assert isinstance(module, CausalConv1d)
    return module


def up(kernel: int, stride: int, groups: int = 1, bias: bool = True) -> CausalConvTranspose1d:
    module = random(CausalConvTranspose1d(2, 4, kernel, stride, groups, bias))
    assert isinstance(module, CausalConvTranspose1d)
    return module


def signal(length: int, rows: int = 2) -> Tensor:
    return torch.randn(rows, 2, length, generator=torch.Generator().manual_seed(4))


def run(module: Convolution, x: Tensor, chunks: Sequence[int]) -> Tensor:
    """The stream [B, C, T] in chunks, from a fresh state."""
    state, active = module.zeros(len(x)), torch.tensor([True] * len(x))
    return torch.cat([module(chunk, state, active) for chunk in x.split(list(chunks), dim=-1)], dim=-1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
def test_convolution(kernel: int, stride: int, bias: bool) -> None:
    module, x = down(kernel, stride, bias), signal(4 * stride)
    padded = F.pad(x, (kernel - stride, 0))
    expected = F.conv1d(padded, module.weight, module.bias, stride)
    assert expected.shape[-1] == 4
    torch.testing.assert_close(run(module, x, [4 * stride]), expected)


@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
@settings(deadline=None)
@given(chunks=cuts)
def test_convolution_in_any_chunks(kernel: int, stride: int, chunks: list[int]) -> None:
    module = down(kernel, stride)
    lengths = [stride * n for n in chunks]
    x = signal(sum(lengths))
    torch.testing.assert_close(run(module, x, lengths), run(module, x, [sum(lengths)]))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
def test_transposed_convolution(kernel: int, stride: int, groups: int, bias: bool) -> None:
    """The last kernel - stride outputs are dropped; the bias counts once."""
    module, x = up(kernel, stride, groups, bias), signal(5)
    expected = F.conv_transpose1d(x, module.weight, module.bias, stride, groups=groups)[..., : 5 * stride]
    torch.testing.assert_close(run(module, x, [5]), expected)


@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
@settings(deadline=None)
@given(chunks=cuts)
def test_transposed_convolution_in_any_chunks(kernel: int, stride: int, chunks: list[int]) -> None:
    module, x = up(kernel, stride), signal(sum(chunks))
    torch.testing.assert_close(run(module, x, chunks), run(module, x, [sum(chunks)]))


@pytest.mark.parametrize("module", [down(8, 4), up(8, 4)], ids=["down", "up"])
def test_inactive_rows_keep_their_state(module: Convolution) -> None:
    """A row that pauses goes on where it was, bit for bit, whatever it was fed meanwhile."""
    x, state = signal(12), module.zeros(2)
    first, second, third = x.split(4, dim=-1)
    one, other = torch.tensor([True, False]), torch.tensor([False, True])
    out = [module(first, state, one | other)]
    paused = state.clone()
    module(torch.full_like(x, torch.inf), state, one)
    assert torch.equal(state[1], paused[1])
    assert not torch.equal(state[0], paused[0])
    out += [module(second, state, other), module(third, state, other)]
    assert torch.equal(torch.cat(out, dim=-1)[1], run(module, x, [4] * 3)[1])


@pytest.mark.parametrize("module", [down(8, 4), up(8, 4)], ids=["down", "up"])
def test_causal(module: Convolution) -> None:
    """Changing an input changes nothing before it, and something from it on."""
    x = signal(12)
    changed = x.clone()
    changed[..., 8:] += 1
    before, after = run(module, x, [12]), run(module, changed, [12])
    edge = before.shape[-1] * 8 // 12
    assert torch.equal(before[..., :edge], after[..., :edge])
    assert (before[..., edge:] != after[..., edge:]).any()
