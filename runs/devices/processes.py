"""Workers in processes of this machine, each started fresh, with a pipe to it.

A worker whose run is gone, by whatever death, hears the pipe close: it drops what is in its slots, and ends.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType

from personaplex.runs.devices.chosen import Device
from personaplex.runs.devices.messages import Close, FromWorker, Gone, ToWorker
from personaplex.runs.devices.worker import Port, Work, serve

_IGNORED = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_JOIN_SECONDS = 5.0


@dataclass(eq=False)
class _Hand:
    device: Device
    process: SpawnProcess
    line: Connection


class Processes:
    """A process for each device; see `Crew`."""

    def __init__(self, devices: Sequence[Device], work: Work) -> None:
        self._work = work
        self._context = multiprocessing.get_context("spawn")
        self._hands: dict[str, _Hand] = {}
        self._devices = {device.name: device for device in devices}
        for name in self._devices:
            self.again(name)

    @property
    def names(self) -> Sequence[str]:
        """Those that are there or on their way."""
        return list(self._hands)

    def hear(self, seconds: float) -> Sequence[tuple[str, FromWorker]]:
        """What workers have to say, waiting for some seconds at most."""
        lines = {hand.line: name for name, hand in self._hands.items()}
        heard: list[tuple[str, FromWorker]] = []
        for line in wait(list(lines), seconds):
            name = lines[line]  # type: ignore[index] # what comes out is what went in
            try:
                while self._hands[name].line.poll():
                    heard.append((name, self._hands[name].line.recv()))
            except (EOFError, OSError):
                heard.append((name, Gone(self._buried(name))))
        return heard

    def tell(self, name: str, message: ToWorker) -> None:
        """Tell a worker something; what is told to one that is gone is lost."""
        with suppress(OSError, KeyError):
            self._hands[name].line.send(message)

    def again(self, name: str) -> None:
        """Put a new worker in the place of one that is gone."""
        ours, theirs = self._context.Pipe()
        device = self._devices[name]
        process = self._context.Process(target=_live, args=(theirs, self._work, device), name=name, daemon=True)
        with _share_of(device), _deaf(), _without_main():
            process.start()
        theirs.close()
        self._hands[name] = _Hand(device, process, ours)

    def end(self) -> None:
        """End those that are still there, at once."""
        for hand in self._hands.values():
            hand.process.kill()
        for name in list(self._hands):
            self._buried(name)

    def _buried(self, name: str) -> str:
        """Take a worker out of the crew; returns how it ended."""
        hand = self._hands.pop(name)
        hand.line.close()
        hand.process.join(_JOIN_SECONDS)
        code = hand.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"


@contextmanager
def _share_of(device: Device) -> Iterator[None]:
    """Have a process that is started now begin with its share of the cores, for libraries that look but once."""
    if device.threads is None or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(device.threads)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


@contextmanager
def _deaf() -> Iterator[None]:
    """Have a process that is started now hear of no signal, from its first moment."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Have a process that is started now not import the program that starts it, which may be a script that runs all."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _live(line: Connection, work: Work, device: Device) -> None:
    """The whole life of a process. What ends the run is the run's to hear: it tells."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    lock = threading.Lock()

    def send(message: FromWorker) -> None:
        with lock, suppress(OSError):  # of a run that is gone, whose files are all that counts
            line.send(message)

    port = Port(send)

    def listen() -> None:
        while True:
            try:
                port.receive(line.recv())
            except (EOFError, OSError):
                port.receive(Close(drops=True))
                return

    threading.Thread(target=listen, name="line", daemon=True).start()
    serve(port, work, device)
