"""Voices and models that are missing, broken or of the wrong kind: exit 3."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

if TYPE_CHECKING:
    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel

DATA = Path(__file__).parents[1] / "data"


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


class TestVoices:
    @pytest.mark.parametrize(
        ("voice", "mend"),
        [
            ("NATM9", "  did you mean NATM"),
            ("natf1.pt", "  did you mean NATF1"),
            ("nix.wav", "  `personaplex voices list` shows the catalogue"),
        ],
    )
    def test_an_unknown_one(self, desk: Desk, voice: str, mend: str) -> None:
        error = desk.refused(3, voice=voice)
        assert error.startswith(
            f"error: voice '{voice}' is unknown: no file of that name, not in the catalogue | {mend}"
        )

    def test_one_that_the_folder_lacks(self, desk: Desk) -> None:
        (desk.folder / "voices").mkdir()
        (desk.folder / "voices" / "helen.pt").touch()
        error = desk.refused(3, "--voice-prompt-dir", "voices", voice="hellen")
        assert "not in the folder voices" in error
        assert "did you mean helen?" in error

    def test_a_published_one_of_a_model_without_voices(self, desk: Desk) -> None:
        assert desk.refused(3, voice="NATM1").startswith('error: the model "tiny" comes with no voices')

    def test_one_of_another_width_names_both(self, desk: Desk) -> None:
        shutil.copy(DATA / "voice_short.pt", desk.folder / "short.pt")
        assert desk.refused(3, voice="short.pt").startswith(
            "error: short.pt: made for a model of dim 64; this one has 128"
        )

    def test_one_that_would_run_code_does_not(self, desk: Desk) -> None:
        trap = desk.folder / "run"
        (desk.folder / "trap.pt").write_bytes(pickle.dumps({"embeddings": Trap(trap), "cache": Trap(trap)}))
        torch.save({"embeddings": Trap(trap)}, desk.folder / "zip.pt")
        for voice in ("trap.pt", "zip.pt"):
            assert "could run code" in desk.refused(3, voice=voice)
        assert not trap.exists()

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("empty.wav", "is empty (0 bytes)"),
            ("text.wav", "is not audio that can be read"),
            ("quiet.wav", "is silent, or too quiet to measure"),
            ("brief.wav", "lasts only 0.100 s"),
        ],
    )
    def test_a_recording_that_is_no_voice(self, desk: Desk, name: str, reason: str) -> None:
        (desk.folder / "empty.wav").touch()
        (desk.folder / "text.wav").write_text("Hello.")
        desk.sound("quiet.wav", np.zeros(24_000))
        desk.sound("brief.wav", desk.noise(0.1))
        assert desk.refused(3, voice=name).startswith(f"error: voice {name}: {reason}")

    @pytest.mark.parametrize("name", ["text.pt", "text.safetensors", "empty.pt"])
    def test_a_file_that_is_no_voice(self, desk: Desk, name: str) -> None:
        (desk.folder / name).write_text("" if "empty" in name else "Hello.")
        assert desk.refused(3, voice=name).startswith(f"error: {name}: not a ")


class TestModels:
    @pytest.fixture
    def folder(self, desk: Desk, build_model: BuildModel) -> Path:
        """A model directory that may be broken."""
        return Path(shutil.copytree(build_model("short"), desk.folder / "model"))

    def test_an_unknown_one(self, desk: Desk) -> None:
        error = desk.refused(3, "--model", "nix")
        assert error.startswith('error: there is no model "nix" |   give a directory, a hub id such as ')

    @pytest.mark.parametrize("file", ["model.safetensors", "mimi.safetensors"])
    def test_cut_weights(self, desk: Desk, folder: Path, file: str) -> None:
        whole = (folder / file).read_bytes()
        (folder / file).write_bytes(whole[: len(whole) // 2])
        assert desk.refused(3, "--model", "model").startswith(f"error: model/{file}: not a whole safetensors file")

    @pytest.mark.parametrize("file", ["config.json", "model.safetensors", "mimi.safetensors", "tokenizer.model"])
    def test_a_missing_file(self, desk: Desk, folder: Path, file: str) -> None:
        (folder / file).unlink()
        error = desk.refused(3, "--model", "model")
        assert error.startswith(f"error: model/{file}: ")
        assert "No such file" in error

    def test_tensors_that_do_not_fit(self, desk: Desk, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["out_norm.alpha"] = tensors["out_norm.alpha"][..., :8].copy()
        tensors["nix"] = tensors.pop("text_linear.weight")
        save_file(tensors, folder / "model.safetensors")
        error = desk.refused(3, "--model", "model")
        assert error.startswith("error: model/model.safetensors: ")
        for name in ("out_norm.alpha", "[1, 1, 8]", "[1, 1, 64]", "nix", "text_linear.weight"):
            assert name in error

    def test_a_missing_and_an_unknown_field(self, desk: Desk, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        del config["lm"]["num_heads"]
        config["mimi"]["nix"] = 3
        (folder / "config.json").write_text(json.dumps(config))
        error = desk.refused(3, "--model", "model")
        assert error.startswith("error: model/config.json: ")
        assert "lm.num_heads" in error
        assert "mimi.nix" in error

    def test_a_tokenizer_of_another_model(self, desk: Desk, folder: Path) -> None:
        from personaplex.samples.catalog import model_folder

        other = model_folder("tiny") / "tokenizer.model"
        error = desk.refused(3, "--model", "model", "--tokenizer", other)
        assert error.startswith(f"error: {other}: has 512 pieces, the model 183 text tokens")

    def test_the_hub_without_a_network(self, desk: Desk) -> None:
        result = desk.process("offline", "--input-wav", "call.wav", "--voice-prompt", "voice.wav")
        assert (result.code, result.out) == (3, "")
        assert "nvidia/personaplex-7b-v1" in result.errors[0]
        assert {name for name in desk.names() if not name.startswith(".hub")} == {"call.wav", "voice.wav"}


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there(desk: Desk, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    error = desk.refused(3, "--device", device)
    assert error == f"error: --device {device}: this machine has no such device |   use --device auto, or cpu"
