"""Checks of a model's files, in a directory and in the hub's cache, whole and broken."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants
from safetensors.numpy import load_file, save_file

from personaplex.core.config import PERSONAPLEX_7B, read_config
from personaplex.core.errors import ModelError, UsageError
from personaplex.core.weights import verify as module
from personaplex.core.weights.cached import CachedModel, cached_model, snapshot
from personaplex.core.weights.published import HUB_MODEL
from personaplex.core.weights.verify import verify

if TYPE_CHECKING:
    from tests.conftest import BuildModel

FILES = PERSONAPLEX_7B.files
COMMIT = "a" * 40


def problems(name: str | Path) -> dict[str, str]:
    """What is wrong, by file; each has a mend."""
    wrong = [file for file in verify(str(name)) if file.problem]
    assert all(file.mend for file in wrong)
    return {file.path.name: file.problem for file in wrong}


@pytest.fixture
def folder(build_model: BuildModel, tmp_path: Path) -> Path:
    """A model directory that may be broken."""
    return Path(shutil.copytree(build_model("short"), tmp_path / "model"))


class TestDirectory:
    def test_a_whole_one(self, folder: Path) -> None:
        files = list(verify(str(folder)))
        assert [file.path.name for file in files] == ["model.safetensors", "mimi.safetensors", "tokenizer.model"]
        for file in files:
            assert file.sha256 == hashlib.sha256(file.path.read_bytes()).hexdigest()
            assert (file.problem, file.mend) == ("", "")
        assert files[2].holds == "183 pieces"

    @pytest.mark.parametrize("file", ["model.safetensors", "mimi.safetensors", "tokenizer.model"])
    def test_a_missing_file(self, folder: Path, file: str) -> None:
        (folder / file).unlink()
        assert problems(folder) == {file: "is missing"}

    def test_all_that_is_wrong_is_told(self, folder: Path) -> None:
        for file in ("model.safetensors", "tokenizer.model"):
            (folder / file).unlink()
        assert set(problems(folder)) == {"model.safetensors", "tokenizer.model"}

    @pytest.mark.parametrize("file", ["model.safetensors", "mimi.safetensors"])
    def test_cut_weights(self, folder: Path, file: str) -> None:
        whole = (folder / file).read_bytes()
        (folder / file).write_bytes(whole[: len(whole) // 2])
        found = problems(folder)
        assert set(found) == {file}
        assert found[file].startswith("not a whole safetensors file")

    def test_tensors_of_another_shape_or_name(self, folder: Path) -> None:
        tensors = load_file(folder / "mimi.safetensors")
        tensors["encoder.model.0.conv.conv.bias"] = tensors["encoder.model.0.conv.conv.bias"][:1].copy()
        tensors["nix"] = tensors.pop("upsample.convtr.convtr.convtr.weight")
        save_file(tensors, folder / "mimi.safetensors")
        found = problems(folder)
        assert set(found) == {"mimi.safetensors"}
        for part in ("encoder.model.0.conv.conv.bias is [1], not [", "unexpected: nix", "missing: upsample."):
            assert part in found["mimi.safetensors"]

    def test_a_tokenizer_of_another_size(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["lm"]["text_vocab"] += 1
        (folder / "config.json").write_text(json.dumps(config))
        found = problems(folder)
        assert found["tokenizer.model"] == "has 183 pieces, the model 184 text tokens"
        assert "text_linear.weight is [183, 64], not [184, 64]" in found["model.safetensors"]

    def test_a_broken_config(self, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        assert set(problems(folder)) == {"config.json"}

    def test_shards(self, build_model: BuildModel, tmp_path: Path) -> None:
        folder = shutil.copytree(build_model("short", shards=2), tmp_path / "model")
        first, second = (f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
        names = [file.path.name for file in verify(str(folder)) if not file.problem]
        assert names[:3] == [first, second, "model.safetensors.index.json"]
        (folder / second).unlink()
        assert problems(folder) == {second: "is missing"}

    def test_it_has_no_revisions(self, folder: Path) -> None:
        with pytest.raises(UsageError, match="a model directory has no revisions"):
            list(verify(str(folder), "main"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache; gives the folder of the published model's snapshots."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub" / "models--nvidia--personaplex-7b-v1" / "snapshots"


@pytest.fixture
def cached(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot whose files are links to blobs named by their SHA-256, of a model of small shapes."""
    small = read_config(folder / "config.json")
    published = type(small)(**{**vars(small), "files": FILES})
    monkeypatch.setattr(module, "PERSONAPLEX_7B", published)
    made = cache / COMMIT
    made.mkdir(parents=True)
    (cache.parent / "blobs").mkdir()
    (folder / "voices.tgz").write_bytes(b"voices")
    names = {small.files.lm: FILES.lm, small.files.mimi: FILES.mimi, small.files.tokenizer: FILES.tokenizer}
    for source, name in {**names, "voices.tgz": "voices.tgz"}.items():
        content = (folder / source).read_bytes()
        blob = cache.parent / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (made / name).symlink_to(blob)
    return made


class TestCache:
    def test_nothing_is_here(self, cache: Path) -> None:
        assert cached_model(HUB_MODEL) == CachedModel("absent", None)
        with pytest.raises(ModelError, match="is not on this machine") as caught:
            list(verify(HUB_MODEL))
        assert f"personaplex models fetch {HUB_MODEL}" in caught.value.mend

    def test_no_such_model(self) -> None:
        with pytest.raises(ModelError, match='there is no model "nix"'):
            list(verify("nix"))

    def test_whole(self, cached: Path) -> None:
        assert cached_model(HUB_MODEL) == CachedModel("here", cached)
        files = list(verify(HUB_MODEL))
        assert [file.path for file in files] == [
            cached / name for name in (FILES.lm, FILES.mimi, FILES.tokenizer, "voices.tgz")
        ]
        assert not any(file.problem for file in files)

    @pytest.mark.parametrize("name", [FILES.lm, "voices.tgz"])
    def test_a_changed_blob(self, cached: Path, name: str) -> None:
        blob = (cached / name).resolve()
        blob.write_bytes(blob.read_bytes()[:-1] + b"\x01")
        (wrong,) = [file for file in verify(HUB_MODEL) if file.problem]
        assert (wrong.path.name, wrong.problem) == (name, "its content is not what its SHA-256 promises")
        assert wrong.mend == f"delete {blob}, then run `personaplex models fetch {HUB_MODEL}`"

    def test_a_link_to_nothing(self, cached: Path) -> None:
        (cached / FILES.mimi).resolve().unlink()
        assert cached_model(HUB_MODEL) == CachedModel("incomplete", cached)
        assert problems(HUB_MODEL) == {FILES.mimi: "is missing"}

    def test_missing_voices(self, cached: Path) -> None:
        (cached / "voices.tgz").unlink()
        assert problems(HUB_MODEL) == {"voices.tgz": "is missing"}

    def test_which_snapshot(self, cached: Path) -> None:
        other = cached.parent / ("b" * 40)
        other.mkdir()
        (cached.parents[1] / "refs").mkdir()
        (cached.parents[1] / "refs" / "main").write_text(COMMIT)
        assert snapshot(HUB_MODEL) == snapshot(HUB_MODEL, "main") == snapshot(HUB_MODEL, COMMIT) == cached
        assert snapshot(HUB_MODEL, "b" * 40) == other
        assert snapshot(HUB_MODEL, "v9") is None

    def test_shards_make_it_whole(self, cached: Path) -> None:
        shard = "model-1.safetensors"
        (cached / FILES.lm).unlink()
        assert cached_model(HUB_MODEL).presence == "incomplete"
        (cached / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"t": shard}}))
        assert cached_model(HUB_MODEL).presence == "incomplete"
        (cached / shard).touch()
        assert cached_model(HUB_MODEL).presence == "here"
