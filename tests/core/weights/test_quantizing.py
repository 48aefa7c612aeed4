"""A model directory in int8, made from another: it computes what quantising at load computes, whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from personaplex.core.errors import InputError, ModelError, UsageError
from personaplex.core.files import temporary
from personaplex.core.weights import quantizing
from personaplex.core.weights.checkpoint import open_checkpoint
from personaplex.core.weights.filling import load_lm
from personaplex.core.weights.model import files_sha256, load, locate
from personaplex.core.weights.quantizing import quantize
from personaplex.core.weights.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import BuildModel

CPU = torch.device("cpu")


def silent(done: int, of: int) -> None:
    """Tells nobody."""


@pytest.fixture
def source(build_model: BuildModel) -> Path:
    return build_model("short")


@pytest.fixture
def made(source: Path, tmp_path: Path) -> Path:
    """The source in int8."""
    quantize(locate(str(source)), tmp_path / "made", silent)
    return tmp_path / "made"


@pytest.mark.parametrize(("steps", "shards"), [(16, 1), (8, 3)])
def test_it_computes_what_the_source_does_in_int8(
    build_model: BuildModel, tmp_path: Path, steps: int, shards: int
) -> None:
    source = locate(str(build_model("short", steps=steps, shards=shards)))
    quantize(source, tmp_path / "made", silent)
    made = locate(str(tmp_path / "made"))
    found, expected = load(made, CPU), load(source, CPU, int8=True)
    assert found.lm.temporal.is_int8
    for one, other in ((found.lm, expected.lm), (found.mimi, expected.mimi)):
        assert one.state_dict().keys() == other.state_dict().keys()
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())
    assert found.tokenizer.sha256 == expected.tokenizer.sha256


def test_it_needs_nothing_of_the_source(source: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(source, tmp_path / "copied")
    (copied / "voices").mkdir()
    (copied / "voices" / "one.pt").write_bytes(b"a voice")
    quantize(locate(str(copied)), tmp_path / "made", silent)
    shutil.rmtree(copied)
    assert load(locate(str(tmp_path / "made")), CPU).lm.temporal.is_int8
    assert (tmp_path / "made" / "voices" / "one.pt").read_bytes() == b"a voice"
    assert not list((tmp_path / "made").rglob(".*"))


def test_it_is_smaller_and_whole(source: Path, made: Path) -> None:
    kept = {name: tensor for name, tensor in open_checkpoint(made / "model.safetensors").items() if not tensor.largest}
    original = open_checkpoint(source / "model.safetensors")
    spared = [tensor.shape for name, tensor in open_checkpoint(made / "model.safetensors").items() if tensor.largest]
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (source, made)]
    assert abs(sizes[0] - sizes[1] - sum(rows * (3 * columns - 4) for rows, columns in spared)) < 10_000  # headers
    assert all(torch.equal(tensor.read(None), original[name].read(None)) for name, tensor in kept.items())
    files = list(verify(str(made)))
    assert len(files) == 3
    assert not any(file.problem for file in files)


def test_it_says_what_it_was_made_of(source: Path, made: Path) -> None:
    files = locate(str(source))
    origin = locate(str(made)).config.quantized
    assert origin is not None
    assert (origin.type, origin.name, origin.weights_sha256) == ("int8", files.name, files_sha256(files))


def test_the_same_source_gives_the_same_bytes(source: Path, made: Path, tmp_path: Path) -> None:
    quantize(locate(str(source)), tmp_path / "again", silent)
    for path in made.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_a_damaged_scale_is_found(made: Path) -> None:
    path = made / "model.safetensors"
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    name = next(name for name in header if name.endswith("_scb"))
    place = start + header[name]["data_offsets"][0]
    content[place : place + 4] = b"\x00\x00\xc0\x7f"  # no number
    path.write_bytes(content)
    (wrong,) = [file for file in verify(str(made)) if file.problem]
    assert "holds values that are no numbers" in wrong.problem
    with pytest.raises(ModelError, match="holds values that are no numbers"):
        load(locate(str(made)), CPU)


def test_an_empty_folder_is_taken(source: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    quantize(locate(str(source)), tmp_path / "made", silent)
    assert (tmp_path / "made" / "config.json").is_file()


class TestRefused:
    """Whatever is refused leaves nothing behind."""

    @pytest.fixture(autouse=True)
    def _nothing_stays(self, tmp_path: Path) -> object:
        yield
        assert not list(tmp_path.glob(".*"))

    def test_what_is_in_int8_already(self, made: Path, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="is in int8 already"):
            quantize(locate(str(made)), tmp_path / "again", silent)
        assert not (tmp_path / "again").exists()

    @pytest.mark.parametrize("is_file", [True, False])
    def test_a_place_that_is_taken(self, source: Path, tmp_path: Path, is_file: bool) -> None:
        output = tmp_path / "made"
        if is_file:
            output.write_text("mine")
        else:
            output.mkdir()
            (output / "mine").touch()
        with pytest.raises(UsageError, match="not an empty folder"):
            quantize(locate(str(source)), output, silent)
        assert output.is_file() or [path.name for path in output.iterdir()] == ["mine"]

    def test_a_disk_without_room(self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(quantizing.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
        with pytest.raises(InputError, match=r"it takes 0\.0 GiB, and 0\.0 GiB are free"):
            quantize(locate(str(source)), tmp_path / "new" / "made", silent)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("file", ["model", "mimi"])
    def test_a_disk_that_fills_up(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if file == "model":
            monkeypatch.setattr(quantizing.os, "fsync", full)
        else:
            monkeypatch.setattr(quantizing.shutil, "copyfile", full)
        with pytest.raises(InputError, match="cannot write: No space left on device") as raised:
            quantize(locate(str(source)), tmp_path / "made", silent)
        assert raised.value.mend == "free some space, or write to another disk"
        assert not (tmp_path / "made").exists()

    def test_an_interruption(self, source: Path, tmp_path: Path) -> None:
        def interrupt(done: int, of: int) -> None:
            if done == of // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            quantize(locate(str(source)), tmp_path / "made", interrupt)
        assert not (tmp_path / "made").exists()

    def test_what_a_killed_process_left_is_removed(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 999_999_999)
            left = temporary(tmp_path / "made")
        left.mkdir()
        (left / "model.safetensors").write_bytes(b"half")
        quantize(locate(str(source)), tmp_path / "made", silent)
        assert not left.exists()

    def test_a_model_that_is_none(self, source: Path, tmp_path: Path) -> None:
        copied = shutil.copytree(source, tmp_path / "copied")
        config = json.loads((copied / "config.json").read_text())
        config["lm"]["num_layers"] += 1
        (copied / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match="6 tensors missing"):
            quantize(locate(str(copied)), tmp_path / "made", silent)
        assert not (tmp_path / "made").exists()


def test_one_layer_at_a_time_is_read(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the model, no more of it is held than a tensor."""
    import weakref

    held: list[weakref.ref[torch.Tensor]] = []
    real = quantizing.in_int8

    def watched(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        found = real(*arguments)  # type: ignore[arg-type]
        assert sum(one() is not None for one in held) <= 1
        held.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(quantizing, "in_int8", watched)
    quantize(locate(str(source)), tmp_path / "made", silent)
    assert len(held) == 4 * locate(str(source)).config.lm.num_layers


def test_kyutais_file_loads_as_it_is(source: Path, tmp_path: Path, made: Path) -> None:
    """A copy of the published model whose language model is `model.q8.safetensors`."""
    files = locate(str(made))
    assert load_lm(made / "model.safetensors", files.config.lm, CPU, None).temporal.is_int8
    folder = tmp_path / "kyutai"
    folder.mkdir()
    shutil.copyfile(made / "model.safetensors", folder / "model.q8.safetensors")
    shutil.copyfile(made / "mimi.safetensors", folder / "tokenizer-e351c8d8-checkpoint125.safetensors")
    assert locate(str(folder)).lm.name == "model.q8.safetensors"
