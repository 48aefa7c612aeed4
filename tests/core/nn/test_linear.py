import pytest
import torch
from torch import nn
from torch.nn import functional as F

from personaplex.core.nn.linear import Packable, linear, pack, packed

HALF = torch.bfloat16


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


class Part(Packable):
    """One matrix, one stack, and a parameter that is neither."""

    matrices = ("one",)
    stacks = ("several",)

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.one = nn.Parameter(random(6, 4, dtype=dtype), requires_grad=False)
        self.several = nn.Parameter(random(3, 5, 4, dtype=dtype), requires_grad=False)
        self.scale = nn.Parameter(random(4, dtype=dtype), requires_grad=False)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("rows", [(4,), (2, 3), (1, 1)])
def test_a_packed_weight_multiplies_alike(dtype: torch.dtype, rows: tuple[int, ...]) -> None:
    weight, x = random(7, 33, dtype=dtype), random(*rows, 33, dtype=dtype)
    expected = F.linear(x, weight)
    assert torch.equal(linear(x, weight), expected)
    found = linear(x, packed(weight))
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_float32_stays_as_it_is() -> None:
    weight = random(7, 33)
    assert packed(weight).data_ptr() == weight.data_ptr()


@pytest.mark.usefixtures("two_threads")
def test_a_packed_weight_rounds_every_row_alike() -> None:
    weight, x = packed(random(183, 64, dtype=HALF)), random(1, 64, dtype=HALF)
    alone = linear(x.expand(4, -1).contiguous(), weight)[0]
    for rows in (4, 8, 12, 32):
        assert torch.equal(linear(x.expand(rows, -1).contiguous(), weight), alone.expand(rows, -1))


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_a_module_is_packed_with_all_its_parts(dtype: torch.dtype) -> None:
    plain, module = nn.ModuleList([Part(dtype), nn.ModuleList([Part(dtype)])]), nn.ModuleList([Part(dtype)])
    module.append(nn.ModuleList([Part(dtype)]))
    pack(module)
    pack(module)  # once more changes nothing
    x = random(4, 4, dtype=dtype)
    for before, after in ((plain[0], module[0]), (plain[1][0], module[1][0])):
        torch.testing.assert_close(linear(x, after.one), linear(x, before.one), rtol=0.02, atol=0.02)
        assert after.one.is_mkldnn == packed(before.one).is_mkldnn
        assert len(after.several) == 3
        for step in range(3):
            torch.testing.assert_close(
                linear(x, after.several[step]), linear(x, before.several[step]), rtol=0.02, atol=0.02
            )
        assert torch.equal(after.scale, before.scale)
    assert not any(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("missing", [AttributeError, NotImplementedError, RuntimeError])
def test_a_torch_without_the_kernels_runs_unpacked(monkeypatch: pytest.MonkeyPatch, missing: type[Exception]) -> None:
    def fail(_weight: torch.Tensor) -> torch.Tensor:
        raise missing

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", fail, raising=False)
    weight = random(7, 33, dtype=HALF)
    assert torch.equal(packed(weight), weight)
