"""`personaplex doctor` on a machine that is well, and on one that is not; the hub is never asked."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError

from personaplex.cli.commands import doctor
from personaplex.core.errors import ModelError
from personaplex.core.machine import health
from personaplex.core.machine.health import Finding

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.cli.conftest import Desk

SECRET = "hf_secret"  # noqa: S105


@pytest.fixture(autouse=True)
def machine(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, empty caches, a token, and a hub that must not be asked."""

    def refuse(_: str) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(desk.folder / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(desk.folder / "own"))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(huggingface_hub, "auth_check", refuse)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def found(desk: Desk) -> Callable[..., dict[str, dict[str, Any]]]:
    """`found(*options)`: the findings by name."""

    def run(*options: str) -> dict[str, dict[str, Any]]:
        document = json.loads(desk.run("doctor", "--json", *options).out)
        return {finding["name"]: finding for finding in document["findings"]}

    return run


def test_a_line_for_each_finding(desk: Desk, found: Callable[..., dict[str, dict[str, Any]]]) -> None:
    result = desk.run("doctor")
    assert (result.code, result.err) == (0, "")
    assert SECRET not in result.out
    lines = result.out.splitlines()
    findings = found()
    assert [line.split()[0] for line in lines] == [finding["state"] for finding in findings.values()]
    assert [line[9:24].rstrip() for line in lines] == list(findings)
    assert findings["torch"]["what"] == version("torch")
    assert "FLAC, OGG/Opus, MP3" in findings["libsndfile"]["what"]
    assert findings["model"]["state"] == "warning"
    assert "personaplex models fetch" in findings["model"]["mend"]
    assert findings["token"]["state"] == "ok"
    assert findings["licence"]["what"].startswith("not checked: offline")
    assert findings["tiny"]["state"] == "ok"
    assert desk.names() == {"call.wav", "voice.wav"}


def test_a_problem_ends_in_3(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAPLEX_VOICES", "nix")
    monkeypatch.setattr(doctor, "_answer", lambda _: None)
    result = desk.run("doctor")
    assert (result.code, result.err) == (3, "")
    assert "problem  voices           PERSONAPLEX_VOICES is nix, which is no folder -> create it" in result.out
    told = desk.run("doctor", "--json")
    assert (told.code, json.loads(told.out)["ok"]) == (3, False)


@pytest.mark.parametrize("error", [ModelError("broken", "mend it"), RuntimeError("broken")])
def test_a_run_that_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(doctor, "_answer", fail)
    finding = doctor._run()
    assert (finding.name, finding.state) == ("tiny", "problem")
    assert "broken" in finding.what
    assert finding.mend


def test_no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(package: str) -> str:
        if package == "numba":
            raise PackageNotFoundError
        return "1"

    monkeypatch.setattr(health, "version", without)
    assert list(health.versions())[-1] == Finding(
        "numba",
        "warning",
        "not installed: a CPU attends slowly in bfloat16",
        "run `pip install 'personaplex[cpu]'`",
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert list(health.versions())[-1].state == "ok"


def test_too_little_memory_and_too_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "free_bytes", lambda _: 2**30)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
    cpu, memory = health.processor()
    assert (cpu.state, memory.state) == ("warning", "warning")
    assert cpu.mend.startswith("set OMP_NUM_THREADS=")
    assert "the 7B needs 16.1" in memory.what


def test_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(index: int) -> tuple[int, int]:
        if index == 1:
            raise RuntimeError("CUDA error: busy\nmore")
        return 80 * 2**30, 80 * 2**30

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", memory)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    well, busy = health.devices()
    assert well == Finding("cuda:0", "ok", "A GPU, 80.0 of 80.0 GiB free")
    assert (busy.state, busy.what) == ("problem", "can't be used: CUDA error: busy")


def test_a_libsndfile_without_mp3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.soundfile, "available_formats", lambda: {"FLAC": "", "OGG": ""})
    (finding,) = health.audio_formats()
    assert (finding.state, finding.what.rpartition("; ")[2]) == ("warning", "lacks MP3")


def test_caches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.folder / "hub").mkdir()
    with (desk.folder / "hub" / "file").open("wb") as file:
        file.truncate(2**28)
    (desk.folder / "own").touch()  # where the folder should be
    usage = health.shutil.disk_usage(desk.folder)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: usage._replace(free=2**30))
    shared, own = health.caches()
    assert shared.state == "warning"
    assert "0.25 GiB, 1.0 GiB free on its disk; the published model takes 18" in shared.what
    assert (own.state, "PERSONAPLEX_CACHE" in own.mend) == ("problem", True)


def test_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    _, token, _ = health.published_model(online=False)
    assert (token.state, token.mend) == ("warning", "run `hf auth login` or set HF_TOKEN")


class TestLicence:
    @staticmethod
    def asked(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> Finding:
        def check(_: str) -> None:
            if error:
                raise error

        monkeypatch.setattr(huggingface_hub, "auth_check", check)
        return list(health.published_model(online=True))[-1]

    def test_accepted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.asked(monkeypatch, None).state == "ok"

    def test_not_accepted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refusal = GatedRepoError.__new__(GatedRepoError)
        finding = self.asked(monkeypatch, refusal)
        assert finding.state == "problem"
        assert finding.mend.startswith("accept its licence at ")

    def test_no_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        finding = self.asked(monkeypatch, ConnectionError("no route"))
        assert (finding.state, finding.what) == ("warning", "not known: the hub can't be asked (no route)")

    def test_forbidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert "HF_HUB_OFFLINE" in list(health.published_model(online=True))[-1].what
