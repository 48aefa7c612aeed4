"""The command as a process: what it imports, prints and leaves when it is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from personaplex.cli.main import run

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

OFFLINE = ("offline", "--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav")


def test_the_entry_point() -> None:
    (script,) = entry_points(group="console_scripts", name="personaplex")
    assert script.load() is run


def test_help_does_not_import_what_is_slow() -> None:
    program = "import sys, personaplex.cli.main; print([m for m in ('torch', 'numpy', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_run(desk: Desk) -> None:
    result = desk.process(*OFFLINE)
    assert result.code == 0
    assert result.out == "call.agent.wav\ncall.agent.json\n"
    assert result.err == "warning: tiny is made of random weights: it answers with noise, to try pipelines out\n"


def test_an_error(desk: Desk) -> None:
    result = desk.process(*OFFLINE, "--channel", "right")
    assert (result.code, result.out) == (1, "")
    assert result.errors == ['error: call.wav: has 1 channel, so no channel "right"', "  use mix or left"]


def test_interrupted(desk: Desk) -> None:
    desk.sound("call.wav", desk.noise(60))
    before = desk.names()
    with desk.spawn(*OFFLINE, "--log-level", "info") as child:
        assert child.stderr is not None
        while not child.stderr.readline().startswith("loaded tiny"):
            assert child.poll() is None
        time.sleep(0.5)  # into the call
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert err.splitlines() == ["error: interrupted"]
    assert desk.names() == before


IN_AN_IMPORT = """
import signal
from personaplex.runs import call
def importing(*_):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None
call.run_call = importing
"""


def test_interrupted_while_a_library_is_imported(desk: Desk) -> None:
    """Some libraries in C let the interrupt come out as a failed import."""
    desk.sound("call.wav", desk.noise(1))
    result = desk.process(*OFFLINE, before=IN_AN_IMPORT)
    assert (result.code, result.out) == (130, "")
    assert result.err.splitlines() == ["error: interrupted"]


def test_a_reader_that_has_seen_enough(desk: Desk) -> None:
    with desk.spawn("models", "info") as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stderr is not None
        assert child.stderr.read() == ""
    assert child.returncode == 141
