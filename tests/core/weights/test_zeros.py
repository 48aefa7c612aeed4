"""Stretches of zeros where weights should be, as a broken-off download leaves them in a file of the full length."""

from pathlib import Path
from typing import Any

import pytest
import torch

from personaplex.core.errors import ModelError
from personaplex.core.weights.model import load, locate
from personaplex.core.weights.verify import verify
from personaplex.core.weights.zeros import zero_stretch


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("start", [0.0, 0.2, 0.5])
def test_a_hole_is_found(dtype: torch.dtype, start: float) -> None:
    values = weight(700, 400, dtype=dtype)
    flat = values.view(-1)
    first, length = int(start * len(flat)), 2 * 32_768 // dtype.itemsize
    flat[first : first + length] = 0
    found = zero_stretch(values)
    assert found is not None
    assert first * dtype.itemsize <= found <= (first + length) * dtype.itemsize
    assert zero_stretch(weight(700, 400, dtype=dtype)) is None


def test_a_matrix_of_nothing_but_zeros() -> None:
    assert zero_stretch(torch.zeros(64, 32)) == 0


@pytest.mark.parametrize("values", [torch.zeros(100_000), torch.zeros(3, 4), torch.zeros(0, 4), torch.zeros(())])
def test_what_may_be_zero(values: torch.Tensor) -> None:
    assert zero_stretch(values) is None


def test_some_zeros_are_weights_too() -> None:
    values = weight(700, 400)
    values[values.abs() < 1.5] = 0
    values[:8] = 0
    assert zero_stretch(values) is None


def test_a_tensor_that_lies_at_an_odd_place() -> None:
    values = weight(500, 401, dtype=torch.bfloat16)
    moved = torch.empty(values.numel() + 1, dtype=torch.bfloat16)
    moved[1:] = values.view(-1)
    moved[40_000:80_000] = 0
    assert zero_stretch(moved[1:].view(500, 401)) is not None


def spoil(path: Path, start: float, end: float) -> None:
    content = bytearray(path.read_bytes())
    first, last = (int(len(content) * share) for share in (start, end))
    content[first:last] = bytes(last - first)
    path.write_bytes(content)


@pytest.mark.parametrize(("file", "start", "end"), [("model", 0.5, 1), ("model", 0.3, 0.4), ("mimi", 0.5, 1)])
def test_a_checkpoint_with_a_hole(build_model: Any, tmp_path: Path, file: str, start: float, end: float) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in build_model("short").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    path = folder / f"{file}.safetensors"
    spoil(path, start, end)
    wrong = [checked for checked in verify(str(folder)) if checked.problem]
    assert [checked.path for checked in wrong] == [path]
    assert "holds zeros where weights should be, from its byte" in wrong[0].problem
    with pytest.raises(ModelError, match=rf"{file}\.safetensors: .* holds zeros where weights") as caught:
        load(locate(str(folder)), torch.device("cpu"))
    assert "fetch or copy it again" in caught.value.mend


def test_a_shard_with_a_hole(build_model: Any, tmp_path: Path) -> None:
    for path in build_model("short", shards=3).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shard = tmp_path / "model-00002-of-00003.safetensors"
    spoil(shard, 0.4, 0.9)
    wrong = [checked for checked in verify(str(tmp_path)) if checked.problem]
    assert [checked.path for checked in wrong] == [shard]
