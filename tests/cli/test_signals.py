"""SIGTERM and SIGHUP end a command as Ctrl-C does, each with its own exit code."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.cli.interrupts import ended_by_signals, stopping
from personaplex.core.engine.slots import Engine
from personaplex.runs import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Desk

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@pytest.fixture(autouse=True)
def _as_a_shell_starts_it() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_call_is_broken_off(desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def step(*_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(Engine, "step", step)
    before = desk.names()
    result = desk.offline()
    assert (result.code, result.err.splitlines()[-1:]) == (128 + number, ["error: interrupted"])
    assert desk.names() == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", SIGNALS)
def test_a_batch_is_broken_off_before_its_calls_run(desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(batch, "locate_model", lambda _: signal.raise_signal(number))
    result = desk.batch(desk.manifest([{"audio_filepath": "call.wav"}]))
    assert (result.code, result.err.splitlines()[-1:]) == (128 + number, ["error: interrupted"])


@pytest.mark.parametrize("number", SIGNALS[1:])
def test_one_that_is_ignored_stays_so(number: int) -> None:
    """As `nohup` does with SIGHUP, for what it starts to go on."""
    signal.signal(number, signal.SIG_IGN)
    stop = threading.Event()
    with ended_by_signals(), stopping(stop) as seen:
        signal.raise_signal(number)
    assert (seen, stop.is_set()) == ([], False)
    assert signal.getsignal(number) is signal.SIG_IGN


def twice(number: int, stop: threading.Event) -> None:
    with ended_by_signals(), stopping(stop) as seen:
        signal.raise_signal(number)
        assert (seen, stop.is_set()) == ([number], True)
        signal.raise_signal(number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_one_ends_it_at_once(number: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        twice(number, threading.Event())
