"""Ctrl-C, and how a run ends that it has stopped."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first Ctrl-C; the second one interrupts at once."""

    def handle(number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
