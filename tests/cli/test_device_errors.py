"""A device that can't do the work ends a command in two lines, wherever it shows; a bug ends it with a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from personaplex.core.engine.slots import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Desk

FULL = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 7 has a total capacity of 23.68 GiB."
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device\nMore of it."


def raising(error: Exception) -> Callable[..., None]:
    def raise_error(*_: object, **__: object) -> None:
        raise error

    return raise_error


def test_a_full_gpu(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "step", raising(torch.OutOfMemoryError(FULL)))
    result = desk.offline()
    assert result.code == 3
    what, mend = result.errors
    assert what == "error: the GPU: not enough memory: 2.50 GiB asked for"
    assert "--slots" in mend
    assert desk.names() == {"call.wav", "voice.wav"}


def test_a_gpu_without_kernels(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex.samples.tiny.load", raising(RuntimeError(NO_KERNEL)))
    result = desk.offline()
    assert result.code == 3
    assert result.errors[0].endswith("has no kernels for this GPU")


def test_memory_that_no_machine_has(desk: Desk) -> None:
    """torch's own error."""
    result = desk.run("bench", "--slots", str(10**9), "--context-used", "3000", "--frames", "1", "--quiet")
    assert result.code == 3
    assert result.errors[0].startswith("error: this machine: not enough memory: ")


@pytest.mark.parametrize("where", ["prepare", "finish"])
def test_on_a_thread_of_a_batch(desk: Desk, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(f"personaplex.core.engine.batch.{where}", raising(MemoryError()))
    desk.manifest([{"audio_filepath": "call.wav"}])
    result = desk.batch("calls.jsonl")
    assert result.code == 3
    assert result.errors[0].startswith("error: this machine: not enough memory: ")


def test_debug_shows_where(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "step", raising(torch.OutOfMemoryError(FULL)))
    result = desk.offline("--log-level", "debug")
    assert result.code == 3
    assert "Traceback" in result.err
    assert f"OutOfMemoryError: {FULL}" in result.err
    assert "error: the GPU: not enough memory" in result.err


def test_a_bug_keeps_its_traceback(desk: Desk) -> None:
    said = "CUDA error: device-side assert triggered"
    step = f"def step(*_): raise RuntimeError({said!r})"
    bug = f"from personaplex.core.engine.slots import Engine\n{step}\nEngine.step = step\n"
    arguments = ("offline", "--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav")
    with desk.spawn(*arguments, before=bug) as child:
        out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (1, "")
    assert "Traceback" in err
    assert err.endswith(f"RuntimeError: {said}\n")
