"""The life of a worker: it loads the model, takes calls one by one, writes their files, and sends their rows."""

import errno
import logging
import platform
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Protocol

import torch

from personaplex.core.errors import PersonaplexError
from personaplex.core.machine.device_errors import told_device_error
from personaplex.runs.devices.chosen import Device
from personaplex.runs.devices.messages import Broken, Close, Failed, FromWorker, Ready, Said, Take, Ticked, ToWorker
from personaplex.runs.observer import Standing

PROGRESS_SECONDS = 0.2

_OF_THE_PLACE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO, errno.ESTALE}


class Port:
    """A worker's end of the line: `send` tells the run something, from any thread; `inbox` is what it is told."""

    def __init__(self, send: Callable[[FromWorker], None]) -> None:
        self.send = send
        self.inbox: SimpleQueue[ToWorker] = SimpleQueue()
        self.drops = threading.Event()
        self._is_over = False
        self._told = 0.0

    def receive(self, message: ToWorker) -> None:
        """What the line brings, on whatever thread."""
        if isinstance(message, Close) and message.drops:
            self.drops.set()
        self.inbox.put(message)

    def take(self, *, waits: bool) -> Take | None:
        """The next call; None where there is none now, and if it `waits`, where there will be none any more."""
        if self._is_over:
            return None
        try:
            message = self.inbox.get(block=waits)
        except Empty:
            return None
        if isinstance(message, Take):
            return message
        self._is_over = True
        return None

    def ticked(self, calls: Sequence[Standing]) -> None:
        """Tell how far the calls are, now and then; at once where one of them leaves its slot."""
        now = time.monotonic()
        if now - self._told > PROGRESS_SECONDS or any(call.done == call.total for call in calls):
            self._told = now
            self.send(Ticked(tuple(calls)))

    def failed(self, name: str, error: PersonaplexError) -> None:
        """A call can't be run."""
        fault = error.__cause__
        self.send(Failed(name, error, isinstance(fault, OSError) and fault.errno in _OF_THE_PLACE))


class Opened(Protocol):
    """Work on its device, with all loaded."""

    def ready(self, node: str) -> Ready:
        """What the run is told of it."""

    def run(self, port: Port) -> None:
        """Run calls until there are no more."""


class Work(Protocol):
    """What workers are to do, as it travels to them."""

    def open(self, device: Device) -> Opened:
        """Load what it takes; raises PersonaplexError."""


def serve(port: Port, work: Work, device: Device) -> None:
    """Do work on a device until the run says that it is over; an error that is no PersonaplexError is raised."""
    if device.threads is not None:
        torch.set_num_threads(device.threads)
    with _told(port):
        try:
            opened = work.open(device)
            port.send(opened.ready(platform.node()))
            opened.run(port)
        except PersonaplexError as error:
            port.send(Broken(error))
        except Exception as error:
            told = told_device_error(error)
            if told is None:
                port.send(Said(logging.ERROR, f"{device.name}: {''.join(traceback.format_exception(error))}"))
                raise
            port.send(Broken(told))


@contextmanager
def _told(port: Port) -> Iterator[None]:
    """Have messages sent to the run, whose terminal it is."""
    log = logging.getLogger("personaplex")
    before = log.handlers, log.propagate, log.level
    log.handlers, log.propagate = [_Teller(port)], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before[:2]
        log.setLevel(before[2])


class _Teller(logging.Handler):
    def __init__(self, port: Port) -> None:
        super().__init__()
        self._port = port

    def emit(self, record: logging.LogRecord) -> None:
        self._port.send(Said(record.levelno, record.getMessage()))
