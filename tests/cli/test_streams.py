"""Standard output and error that can't be written: the work is done all the same, and the loss told at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from personaplex.cli.streams import Guarded, guarded
from tests.cli.conftest import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cli.conftest import Desk

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")

CALL = ["offline", "--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav"]


def ended(desk: Desk, arguments: Sequence[str], redirected: str) -> tuple[int, str, str]:
    """The exit code of a command whose streams the shell has redirected, and what is left of stdout and stderr."""
    child = subprocess.run(
        [
            "bash",
            "-c",
            f'"$@" {redirected}; exit ${{PIPESTATUS[0]}}',
            "bash",
            sys.executable,
            "-c",
            PROGRAM,
            *arguments,
        ],
        cwd=desk.folder,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return child.returncode, child.stdout, child.stderr


@pytest.mark.parametrize(
    ("redirected", "code", "told"),
    [
        (">/dev/full", 1, "error: the result could not be written to stdout: No space left on device\n"),
        (">&-", 1, "error: the result could not be written to stdout: it is closed\n"),
        ("| (exec <&-; sleep 3)", 141, ""),  # a reader that is gone before the first line
        ("2>/dev/full", 0, ""),
        ("2>&-", 0, ""),
    ],
)
@pytest.mark.parametrize("command", [["prompts", "show", "teacher"], ["--version"], ["--help"]])
def test_a_result_that_is_lost(desk: Desk, command: list[str], redirected: str, code: int, told: str) -> None:
    got, _, errors = ended(desk, command, redirected)
    assert (got, errors[: len(told)]) == (code, told)
    assert told or errors == ""


@pytest.mark.parametrize("redirected", [">/dev/full", ">&-", "| (exec <&-; sleep 4)", "2>/dev/full", "2>&-"])
def test_the_files_are_what_matters(desk: Desk, redirected: str) -> None:
    assert ended(desk, CALL, redirected)[0] == 0
    assert desk.document()["tokens_sha256"]
    assert (desk.folder / "call.agent.wav").is_file()


def test_asked_for_on_stdout_it_is_a_result(desk: Desk) -> None:
    code, _, errors = ended(desk, [*CALL, "--json"], ">/dev/full")
    assert code == 1
    assert "error: the result could not be written to stdout: No space left on device" in errors
    assert (desk.folder / "call.agent.json").is_file()


def test_an_error_keeps_its_code(desk: Desk) -> None:
    assert ended(desk, ["prompts", "show", "nobody"], ">/dev/full 2>/dev/full")[0] == 2


class _Broken:
    encoding = "utf-8"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, _text: str) -> None:
        raise self.error

    def flush(self) -> None:
        raise self.error

    def fileno(self) -> int:
        raise OSError("none")


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenPipeError(32, "x"), ValueError("closed")])
def test_writing_never_fails(error: Exception) -> None:
    stream = Guarded(_Broken(error))
    stream.flush(is_result=False)
    assert isinstance(stream.fault, OSError)
    assert not stream.has_lost_results
    assert stream.write("text") == 4
    assert stream.has_lost_results


def test_what_an_encoding_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with guarded():
            print("3 × caf\udce9")
        assert sys.stdout is file
    assert (tmp_path / "out").read_text() == "3 \\xd7 caf\\udce9\n"


def test_a_missing_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with guarded() as out:
        print("lost")
        assert not out.isatty()
    assert out.has_lost_results


def test_no_output_takes_a_closed_streams_place(tmp_path: Path) -> None:
    """A file that got descriptor 1 or 2 would be written into by whoever prints there."""
    code = "import os, sys; from personaplex.cli.streams import fill_closed; fill_closed(); "
    code += "sys.exit(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY))"
    opened = [sys.executable, "-c", code, str(tmp_path / "file")]
    descriptor = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *opened], check=False).returncode
    assert descriptor > 2
