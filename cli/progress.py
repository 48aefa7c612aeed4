"""Progress on a terminal's stderr: a bar for each call in a slot and one for all, with the speed against real time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from personaplex.cli.console import notice
from personaplex.cli.interrupts import INTERRUPTED, stopping
from personaplex.core.config import FRAME_RATE
from personaplex.runs.observer import Observer, Sizing, Standing

NAME_WIDTH = 24  # leaves room for a bar and all figures on a line of 80


class RealTimeColumn(ProgressColumn):
    """How many seconds of calls are made in a second."""

    def render(self, task: Task) -> Text:
        """ "3.1 × real time", or nothing before the first frames."""
        return Text(f"{task.speed / FRAME_RATE:.1f} × real time" if task.speed else "")


class CallProgress:
    """Bars that follow calls by their frames; shown only where stderr is a terminal."""

    def __init__(self, shown: bool, total_frames: int | None = None) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} frames"),
            RealTimeColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._tasks: dict[str, TaskID] = {}
        self._overall = None if total_frames is None else self._progress.add_task("all calls", total=total_frames)

    def __enter__(self) -> "CallProgress":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def failed(self, count: int) -> None:
        """Show how many calls have failed so far."""
        if self._overall is not None and count:
            self._progress.update(self._overall, description=f"all calls, {count:,} failed")

    def update(self, calls: Sequence[Standing]) -> None:
        """Show the calls in the slots, one frame further."""
        if self._progress.disable:
            return
        if self._overall is not None:
            self._progress.advance(self._overall, len(calls))
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
    """Shows the bar of a single call."""

    def __init__(self, shown: bool) -> None:
        super().__init__()
        self._shown = shown
        self._progress = CallProgress(shown)

    @contextmanager
    def running(self, frames: int) -> Iterator[None]:
        """Hold the bars."""
        with self._progress:
            yield

    def ticked(self, calls: Sequence[Standing]) -> None:
        """Move them on."""
        self._progress.update(calls)


class BatchObserver(CallObserver):
    """Shows a batch's bars, and stops it at the first Ctrl-C or the like while calls run.

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
        """Hold the bars, and listen for signals."""
        self._progress = CallProgress(self._shown, frames)
        with self._progress, stopping(self.stop) as seen:
            yield
        if seen:
            self.interrupted = 128 + seen[0]

    def failed(self, count: int) -> None:
        """Show how many calls have failed so far."""
        self._progress.failed(count)
