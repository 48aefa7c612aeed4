"""Signals that end a run: Ctrl-C, and SIGTERM and SIGHUP, which do the same, each with its own exit code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """Let Ctrl-C and the terminating signals raise KeyboardInterrupt; the list then holds their numbers.

    A signal in the middle of a library's import can come out as another exception: the list tells it was a signal.
    One that is ignored, such as SIGHUP below nohup, stays so.
    """
    seen: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *TERMINATING)}
    changed = [n for n, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    for number in changed:
        signal.signal(number, handle)
    try:
        yield seen
    finally:
        for number in changed:
            signal.signal(number, before[number])


@contextmanager
def stopping(stop: threading.Event) -> Iterator[list[int]]:
    """Set `stop` at the first signal that ends runs; the list then holds its number. The second one ends it at once."""
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *TERMINATING)}
    heeded = [number for number, handler in before.items() if number == signal.SIGINT or handler is not signal.SIG_IGN]

    def restore() -> None:
        for number in heeded:
            signal.signal(number, before[number])

    def handle(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        restore()
        stop.set()

    for number in heeded:
        signal.signal(number, handle)
    try:
        yield seen
    finally:
        restore()
