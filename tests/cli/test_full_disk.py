"""A disk that fills up while the answer is written: exit 1, and no file of the run stays."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from personaplex.core import files

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

OUTPUTS = ["call.agent.wav", "mix.wav", "call.agent.tokens.safetensors", "call.agent.srt", "call.agent.json"]
OPTIONS = ("--mix-wav", "mix.wav", "--save-tokens", "--format", "srt")


@pytest.mark.parametrize("full_at", range(len(OUTPUTS)), ids=OUTPUTS)
def test_each_file_may_be_the_one_too_many(desk: Desk, monkeypatch: pytest.MonkeyPatch, full_at: int) -> None:
    written = []

    def fsync(handle: int) -> None:
        written.append(handle)
        if len(written) > full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fsync)
    error = desk.refused(1, *OPTIONS)
    reason = "cannot write: No space left on device |   free some space, or write to another disk"
    assert error == f"error: {OUTPUTS[full_at]}: {reason}"


def test_an_earlier_answer_stays_as_it_was(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.offline("--seed", "1").code == 0
    before = (desk.folder / "call.agent.wav").read_bytes()

    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fsync)
    desk.refused(1, "--seed", "2")
    assert (desk.folder / "call.agent.wav").read_bytes() == before


def test_a_limit_on_the_size_of_files(desk: Desk) -> None:
    before = desk.names()
    result = desk.process(
        *("offline", "--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav"),
        before="import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)); ",
    )
    assert (result.code, result.out) == (1, "")
    assert result.errors[0] == "error: call.agent.wav: cannot write: File too large"
    assert desk.names() == before
