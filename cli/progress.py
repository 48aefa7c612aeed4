"""Progress on stderr. On a terminal: a bar for each call in a slot and one for all. In a log: a line now and then."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich import progress as rich
from rich.console import Console
from rich.text import Text
from tqdm import tqdm

from personaplex.cli.console import LINE_SECONDS, notice
from personaplex.cli.interrupts import INTERRUPTED, stopping
from personaplex.core.config import FRAME_RATE
from personaplex.runs.observer import Observer, Sizing, Standing

NAME_WIDTH = 24  # leaves room for a bar and all figures on a line of 80
LINE = "{desc}: {percentage:.0f} % of {total_fmt} frames, {elapsed} gone, {remaining} left, {speed:.1f} × real time"


class Progress(Protocol):
    """Follows calls by their frames while it is entered."""

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End."""

    def failed(self, count: int) -> None:
        """So many calls have failed so far."""

    def update(self, calls: Sequence[Standing]) -> None:
        """So far are calls in the slots."""


class Steps:
    """How much further calls are each time they are told of."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}

    def made(self, calls: Sequence[Standing]) -> int:
        """Frames since they were told of last; fewer than none where a call has begun again."""
        steps = 0
        for call in calls:
            steps += call.done - self._done.pop(call.id, 0)
            if call.done < call.total:
                self._done[call.id] = call.done
        return steps


class Line(tqdm):  # type: ignore[misc] # tqdm comes without types
    """A line every half minute, and one at the end unless that comes before the first."""

    disable: bool

    def __init__(self, frames: int) -> None:
        every = {"mininterval": LINE_SECONDS, "maxinterval": LINE_SECONDS, "delay": LINE_SECONDS}
        super().__init__(desc="calls", total=frames, bar_format=LINE, file=sys.stderr, **every)

    @property
    def format_dict(self) -> dict[str, Any]:
        """What the line is made of."""
        known: dict[str, Any] = super().format_dict
        return known | {"speed": known["n"] / FRAME_RATE / max(known["elapsed"], 1e-3)}

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write the line."""
        print(msg or str(self), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write the last line."""
        if not self.disable and self.last_print_t >= self.start_t + self.delay:
            self.display()
        self.disable = True


class Lines:
    """Lines that follow all calls together."""

    def __init__(self, frames: int) -> None:
        self._line = Line(frames)
        self._steps = Steps()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def failed(self, count: int) -> None:
        """So many calls have failed so far."""
        if count:
            self._line.set_description_str(f"calls, {count:,} failed", refresh=False)

    def update(self, calls: Sequence[Standing]) -> None:
        """So far are calls in the slots."""
        self._line.update(self._steps.made(calls))


class RealTimeColumn(rich.ProgressColumn):
    """How many seconds of calls are made in a second."""

    def render(self, task: rich.Task) -> Text:
        """ "3.1 × real time", or nothing before the first frames."""
        return Text(f"{task.speed / FRAME_RATE:.1f} × real time" if task.speed else "")


class Bars:
    """Bars for the calls in the slots, and one for all of them unless `frames` is None."""

    def __init__(self, shown: bool, frames: int | None) -> None:
        self._progress = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.TextColumn("{task.completed:.0f}/{task.total:.0f} frames"),
            RealTimeColumn(),
            rich.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not shown,
        )
        self._tasks: dict[str, rich.TaskID] = {}
        self._steps = Steps()
        self._overall = None if frames is None else self._progress.add_task("all calls", total=frames)

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def failed(self, count: int) -> None:
        """Show how many calls have failed so far."""
        if self._overall is not None and count:
            self._progress.update(self._overall, description=f"all calls, {count:,} failed")

    def update(self, calls: Sequence[Standing]) -> None:
        """Show how far calls in the slots are."""
        if self._progress.disable:
            return
        if self._overall is not None:
            self._progress.advance(self._overall, self._steps.made(calls))
        for call in calls:
            self._follow(*call)

    def _follow(self, name: str, done: int, total: int) -> None:
        """Show a call with `done` of `total` frames."""
        if name not in self._tasks:
            shown = name if len(name) <= NAME_WIDTH else f"…{name[1 - NAME_WIDTH :]}"
            self._tasks[name] = self._progress.add_task(shown, total=total)
        self._progress.update(self._tasks[name], completed=done)
        if done == total:
            self._progress.remove_task(self._tasks.pop(name))


class CallObserver(Observer):
    """Shows how far a single call is."""

    def __init__(self, shown: bool) -> None:
        super().__init__()
        self._shown = shown
        self._progress: Progress = Bars(shown=False, frames=None)

    def _begin(self, frames: int, overall: int | None) -> Progress:
        """Bars or lines, whichever suits stderr."""
        if self._shown and not Console(stderr=True).is_terminal:
            self._progress = Lines(frames)
        else:
            self._progress = Bars(self._shown, overall)
        return self._progress

    @contextmanager
    def running(self, frames: int) -> Iterator[None]:
        """Hold the progress."""
        with self._begin(frames, None):
            yield

    def ticked(self, calls: Sequence[Standing]) -> None:
        """Move it on."""
        self._progress.update(calls)


class BatchObserver(CallObserver):
    """Shows how far a batch is, and stops it at the first Ctrl-C or the like while calls run.

    `interrupted` is the exit code of a run that ended so.
    """

    interrupted = INTERRUPTED

    def sized(self, sizing: Sizing) -> None:
        """Tell the slots and their memory."""
        gib = 2**30
        notice(
            f"slots: {sizing.slots}, each with {sizing.slot_bytes / gib:.3f} GiB of cache for the longest call "
            f"({sizing.positions} positions); {sizing.free_bytes / gib:.1f} GiB are free"
        )

    @contextmanager
    def running(self, frames: int) -> Iterator[None]:
        """Hold the progress, and listen for signals."""
        with self._begin(frames, frames), stopping(self.stop) as seen:
            yield
        if seen:
            self.interrupted = 128 + seen[0]

    def failed(self, count: int) -> None:
        """Show how many calls have failed so far."""
        self._progress.failed(count)
