"""`personaplex models list`, `fetch` and `verify`; nothing is downloaded."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants

from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.weights import hub
from personaplex.core.weights.published import HUB_MODEL, KYUTAI, RL_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel

FILES = PERSONAPLEX_7B.files
SNAPSHOT = Path("hub", "models--nvidia--personaplex-7b-v1", "snapshots", "a" * 40)


@pytest.fixture(autouse=True)
def cache(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of one commit of the published model in a hub cache, which is empty."""

    def no_download(*_: Any, **__: Any) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr(hub.huggingface_hub, "hf_hub_download", no_download)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(desk.folder / "hub"))
    return desk.folder / SNAPSHOT


@pytest.fixture
def rows(desk: Desk) -> Callable[[], dict[str, dict[str, Any]]]:
    """What the list says as JSON, by name."""
    return lambda: {row["name"]: row for row in json.loads(desk.run("models", "list", "--json").out)}


class TestList:
    def test_none_is_here_but_the_packaged_ones(
        self, desk: Desk, rows: Callable[[], dict[str, dict[str, Any]]]
    ) -> None:
        found = rows()
        assert list(found) == ["nano", "tiny", HUB_MODEL, RL_MODEL, *KYUTAI]
        assert [row["state"] for row in found.values()] == [*["packaged"] * 2, *["absent"] * 4]
        assert [row["dtype"] for row in found.values()] == ["bfloat16", "float32", *["bfloat16"] * 4]
        assert [row["gated"] for row in found.values()] == [False, False, True, True, False, False]
        sizes = json.loads(desk.run("models", "info", "--json").out)
        assert found[HUB_MODEL]["parameters"] == sizes["lm_parameters"] + sizes["mimi"]
        assert all(Path(found[name]["path"]).is_dir() for name in ("nano", "tiny"))
        lines = desk.run("models", "list").out.splitlines()
        assert [line.split()[0] for line in lines] == list(found)

    def test_one_that_was_fetched(self, cache: Path, rows: Callable[[], dict[str, dict[str, Any]]]) -> None:
        cache.mkdir(parents=True)
        (cache / FILES.lm).touch()
        assert rows()[HUB_MODEL]["state"] == "incomplete"
        (cache / FILES.mimi).touch()
        (cache / FILES.tokenizer).touch()
        assert (rows()[HUB_MODEL]["state"], rows()[HUB_MODEL]["path"]) == ("here", str(cache))


class TestTheModelOfReinforcementLearning:
    """Kyutai's, made from the published 7B: the same shapes, and a licence of its own."""

    def test_its_shapes_are_the_published_ones(self, desk: Desk) -> None:
        ours, theirs = (json.loads(desk.run("models", "info", name, "--json").out) for name in (RL_MODEL, HUB_MODEL))
        differing = {key for key in ours if ours[key] != theirs[key]}
        assert differing == {"model", "licence"}
        assert "CC BY-NC 4.0" in ours["licence"]

    def test_its_licence_is_told(self, desk: Desk) -> None:
        assert "CC BY-NC 4.0 and NVIDIA Open Model License" in desk.run("models", "list").out
        shown = desk.run("models", "info", RL_MODEL).out
        assert "licence     CC BY-NC 4.0 and NVIDIA Open Model License (gated: accept it" in shown

    def test_a_run_warns_of_it(self, desk: Desk) -> None:
        result = desk.run("offline", "--input-wav", "call.wav", "--voice-prompt", "voice.wav", "--model", RL_MODEL)
        assert result.code == 3
        assert f"warning: {RL_MODEL}: its licence" in result.err
        assert "does not allow commercial use" in result.err

    def test_it_is_here_once_it_was_fetched(self, desk: Desk, rows: Callable[[], dict[str, dict[str, Any]]]) -> None:
        folder = desk.folder / "hub" / "models--kyutai--personaplex-rl-seamless" / "snapshots" / ("b" * 40)
        folder.mkdir(parents=True)
        for name in (FILES.lm, FILES.mimi, FILES.tokenizer):
            (folder / name).touch()
        assert (rows()[RL_MODEL]["state"], rows()[RL_MODEL]["path"]) == ("here", str(folder))
        assert rows()[HUB_MODEL]["state"] == "absent"

    def test_its_voices_are_missed_by_verify(self, desk: Desk, cache: Path) -> None:
        folder = desk.folder / "hub" / "models--kyutai--personaplex-rl-seamless" / "snapshots" / ("b" * 40)
        folder.mkdir(parents=True)
        document = json.loads(desk.run("models", "verify", RL_MODEL, "--json").out)
        missing = {Path(file["path"]).name for file in document["files"] if file["problem"] == "is missing"}
        assert missing == {FILES.lm, FILES.mimi, FILES.tokenizer, "voices.tgz"}


class TestFetch:
    @pytest.fixture
    def asked(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The files that are asked of a hub, which gives them at once; its model has no depth steps."""
        wanted = []

        def download(repo: str, name: str, revision: str | None = None) -> str:
            wanted.append(name)
            return str(cache / name)

        monkeypatch.setattr(hub.huggingface_hub, "hf_hub_download", download)
        monkeypatch.setattr("personaplex.core.weights.model.depth_steps", lambda _: 16)
        return wanted

    def test_the_voices_too_and_where_each_lies(self, desk: Desk, cache: Path, asked: list[str]) -> None:
        lines = desk.run("models", "fetch").out.splitlines()
        assert lines == [str(cache / name) for name in (FILES.lm, FILES.mimi, FILES.tokenizer, "voices.tgz")]
        assert sorted(asked) == sorted([FILES.lm, FILES.mimi, FILES.tokenizer, "voices.tgz"])

    def test_json(self, desk: Desk, cache: Path, asked: list[str]) -> None:
        document = json.loads(desk.run("models", "fetch", "--json").out)
        assert (document["model"], document["revision"]) == (HUB_MODEL, "a" * 40)
        assert document["files"]["voices"] == [str(cache / "voices.tgz")]
        assert set(document["files"]) == {"lm", "mimi", "tokenizer", "voices"}

    def test_the_voices_of_the_model_made_from_it(self, desk: Desk, cache: Path, asked: list[str]) -> None:
        result = desk.run("models", "fetch", RL_MODEL, "--json")
        assert json.loads(result.out)["files"]["voices"] == [str(cache / "voices.tgz")]
        assert f"{RL_MODEL}: its licence" in result.err

    def test_another_model_has_no_voices(self, desk: Desk, asked: list[str]) -> None:
        document = json.loads(desk.run("models", "fetch", KYUTAI[0], "--json").out)
        assert set(document["files"]) == {"lm", "mimi", "tokenizer"}
        assert "voices.tgz" not in asked

    def test_the_shards_of_a_directory(self, desk: Desk, build_model: BuildModel) -> None:
        folder = build_model("short", shards=2)
        lines = desk.run("models", "fetch", folder).out.splitlines()
        assert [Path(line).name for line in lines[:3]] == [
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ]

    def test_quiet_shows_no_bars(self, desk: Desk, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        disabled: list[bool] = []
        library = import_module("huggingface_hub.utils.tqdm")  # a class hides the module of that name
        monkeypatch.setattr(library, "disable_progress_bars", lambda: disabled.append(True))
        desk.run("models", "fetch")
        assert not disabled
        desk.run("models", "fetch", "--quiet")
        assert disabled == [True]

    @pytest.mark.parametrize("name", ["nano", "tiny"])
    def test_a_packaged_one(self, desk: Desk, name: str) -> None:
        result = desk.run("models", "fetch", name)
        assert (result.code, result.out) == (2, "")
        assert result.errors[0] == f"error: {name} comes with the package: there is nothing to fetch"


class TestVerify:
    @pytest.fixture
    def folder(self, desk: Desk, build_model: BuildModel) -> Path:
        """A model directory that may be broken."""
        return Path(shutil.copytree(build_model("short"), desk.folder / "model"))

    def test_tiny(self, desk: Desk, loaded_tiny: Any) -> None:
        digest = json.loads(desk.run("models", "verify", "tiny", "--json").out)["weights_sha256"]
        assert digest == loaded_tiny("cpu").weights_sha256
        assert desk.run("models", "verify", "tiny").out == f"ok     tiny: made in memory; weights_sha256 {digest}\n"

    def test_nano(self, desk: Desk) -> None:
        result = desk.run("models", "verify", "nano")
        assert (result.code, result.err) == (0, "")
        assert [line.split()[0] for line in result.out.splitlines()] == ["ok"] * 3

    def test_a_whole_directory(self, desk: Desk, folder: Path) -> None:
        result = desk.run("models", "verify", "model")
        assert (result.code, result.err) == (0, "")
        assert [line.split()[:2] for line in result.out.splitlines()] == [
            ["ok", f"model/{name}:"] for name in ("model.safetensors", "mimi.safetensors", "tokenizer.model")
        ]
        document = json.loads(desk.run("models", "verify", folder, "--json").out)
        assert document["ok"]
        assert [file["ok"] for file in document["files"]] == [True] * 3

    def test_a_broken_one(self, desk: Desk, folder: Path) -> None:
        whole = (folder / "mimi.safetensors").read_bytes()
        (folder / "mimi.safetensors").write_bytes(whole[:-9])
        (folder / "tokenizer.model").unlink()
        result = desk.run("models", "verify", "model")
        assert result.code == 3
        assert [line.split()[0] for line in result.out.splitlines()] == ["ok", "wrong", "wrong"]
        assert result.errors[0].startswith(
            "error: model: 2 of 3 files are not as they should be, the first mimi.safetensors: not a whole safetensors"
        )
        assert len(result.errors) == 2
        told = desk.run("models", "verify", "model", "--json")
        document = json.loads(told.out)
        assert (told.code, document["ok"]) == (3, False)
        assert document["files"][2]["problem"] == "is missing"
        assert "copy the file to model again" in document["files"][2]["mend"]

    def test_one_that_is_not_here(self, desk: Desk) -> None:
        result = desk.run("models", "verify")
        assert (result.code, result.out) == (3, "")
        assert result.errors == [
            f"error: {HUB_MODEL} is not on this machine",
            f"  run `personaplex models fetch {HUB_MODEL}`",
        ]
