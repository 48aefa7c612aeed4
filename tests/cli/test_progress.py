"""What is shown of a run's progress where stderr is a log, and where nothing is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from personaplex.cli import progress
from personaplex.cli.progress import BatchObserver, CallObserver
from personaplex.runs.observer import Standing

if TYPE_CHECKING:
    import pytest


class Clock:
    """A second passes with every look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def run(observer: CallObserver, monkeypatch: pytest.MonkeyPatch, ticks: int) -> None:
    monkeypatch.setattr("tqdm.std.time", Clock())
    monkeypatch.setattr(progress.Line, "monitor_interval", 0)
    with observer.running(250):
        for tick in range(ticks):
            observer.ticked([Standing("a", tick + 1, 125), Standing("b", tick + 1, 125)])
            if tick == 20:
                observer.failed(3)


def test_a_log_gets_a_line_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(BatchObserver(shown=True), monkeypatch, 100)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (out, "\r" in err, len(lines)) == ("", False, 3)
    assert lines[0].startswith("calls, 3 failed: 2")
    assert lines[0].endswith("× real time")
    assert lines[-1].startswith("calls, 3 failed: 80 % of 250 frames, 01:04 gone")


def test_a_short_run_gets_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(CallObserver(shown=True), monkeypatch, 10)
    assert capsys.readouterr() == ("", "")


def test_a_quiet_run_gets_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(BatchObserver(shown=False), monkeypatch, 100)
    assert capsys.readouterr() == ("", "")
