"""Every error in docs/troubleshooting.md is one that the program gives, word for word."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
import torch
from huggingface_hub import constants, errors
from safetensors.numpy import load_file, save_file

from personaplex.cli.main import run
from personaplex.core.machine.device_errors import told_device_error
from personaplex.core.weights import hub
from personaplex.core.weights.published import HUB_MODEL

if TYPE_CHECKING:
    from tests.conftest import BuildModel

ROOT = Path(__file__).parents[1]
CALL, VOICE = ROOT / "samples/calls/repair.wav", ROOT / "samples/voices/agent_f.wav"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder, the environment free of settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERSONAPLEX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_VERBOSITY", "error")


def answered(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind(f"{status} Client Error.", response=response)


class ConnectError(Exception):
    """As the library's transport has it."""


def of_the_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The errors of a download."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "~/.cache/huggingface/hub")
    for error in (
        answered(errors.GatedRepoError, 401),
        answered(errors.HfHubHTTPError, 401),
        answered(errors.HfHubHTTPError, 403),
        ConnectError("[Errno -2] Name or service not known"),
        errors.OfflineModeIsEnabled("offline"),
        OSError(errno.ENOSPC, "No space left on device"),
    ):
        told = hub.told_error(error, HUB_MODEL, "model.safetensors", None)
        yield f"error: {told.what}\n  {told.mend}\n"


def of_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The errors of a device, as told of GPUs that aren't here."""
    gib = 2**30
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=0.9 * gib, total=15.6 * gib))
    monkeypatch.setattr(torch, "__version__", "2.6.0+cu124")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (0.6 * gib, 23.7 * gib))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 22.5 * gib)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (10, 0))
    for gpu, error in (
        ("NVIDIA RTX A5000", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")),
        ("NVIDIA RTX A5000", RuntimeError("CUDA error: uncorrectable ECC error encountered")),
        ("NVIDIA B200", RuntimeError("CUDA error: no kernel image is available for execution on the device")),
        ("none", RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {3 * gib} bytes.")),
    ):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index, gpu=gpu: gpu)
        told = told_device_error(error)
        assert told is not None
        yield f"error: {told.what}\n  {told.mend}\n"


def of_commands(monkeypatch: pytest.MonkeyPatch, model: Path) -> Iterator[Callable[[], int]]:
    """Commands that fail, each after what makes it fail."""

    def command(*arguments: str | Path) -> Callable[[], int]:
        def failing() -> int:
            monkeypatch.setattr(sys, "argv", ["personaplex", *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                run()
            assert isinstance(ended.value.code, int)
            return ended.value.code

        return failing

    def offline(*options: str | Path) -> Callable[[], int]:
        # A later option takes the place of an earlier one.
        fixed = ("--model", "tiny", "--input-wav", CALL, "--voice-prompt", VOICE, "--output-wav", "out.wav", "--quiet")
        return command("offline", *fixed, *options)

    def lost(failing: Callable[[], int]) -> Callable[[], int]:
        def to_a_full_disk() -> int:
            with monkeypatch.context() as full, Path("/dev/full").open("w") as stdout:
                full.setattr(sys, "stdout", stdout)
                return failing()

        return to_a_full_disk

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    yield offline("--device", "cuda")
    yield offline("--model", "nix")
    yield offline("--voice-prompt", "NATM9")
    yield offline("--voice-prompt", "NATM1")
    Path("calls").mkdir()
    soundfile.write("calls/clinic.wav", np.zeros(24_000), 24_000)
    yield offline("--input-wav", "calls/nix.wav")
    yield offline("--input-wav", "calls/clinic.wav", "--channel", "right")
    monkeypatch.setitem(sys.modules, "av", None)
    Path("call.m4a").write_bytes(b"\0\0\0\x18ftypM4A ")
    yield offline("--input-wav", "call.m4a")
    soundfile.write("long.wav", np.zeros(240_080), 1000)
    yield offline("--input-wav", "long.wav", "--long-audio", "error")
    shutil.copytree(model, "model")
    weights = Path("model/model.safetensors")
    tensors = load_file(weights)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    yield offline("--model", "model")
    tensors["head.weight"] = tensors.pop("text_linear.weight")
    save_file(tensors, weights)
    yield offline("--model", "model")
    weights.write_bytes(weights.read_bytes()[:100_000])
    yield offline("--model", "model")

    yield lost(command("prompts", "show", "teacher"))
    Path("in").mkdir()
    shutil.copyfile(CALL, "in/call.wav")
    Path("out").mkdir()
    Path("out/call.wav").write_text("mine")
    yield command("batch", "in", "-o", "out", "--model", "tiny", "--voice-prompt", VOICE, "--quiet")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    yield offline("--input-wav", "calls/clinic.wav")


def test_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], build_model: BuildModel) -> None:
    told = set(of_the_hub(monkeypatch))
    with monkeypatch.context() as elsewhere:
        told |= set(of_devices(elsewhere))
    for failing in of_commands(monkeypatch, build_model("short")):
        capsys.readouterr()
        assert failing() in {1, 2, 3}
        told.add(capsys.readouterr().err)
    shown = re.findall(
        r"^```text\n(error: .*?)^```$", (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert len(shown) == len(set(shown))
    assert set(shown) == told
