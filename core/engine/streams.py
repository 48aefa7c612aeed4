"""Where the codec works: on a CUDA stream for each worker beside the engine's, so that the two overlap."""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

WORKERS = {"cuda": 2}  # of each direction; elsewhere one


class SideStreams:
    """A stream for each worker thread of a device, made once; only CUDA has streams.

    Whoever uses the results of a worker outside must have waited for them, as a copy to the host does.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._own = threading.local()

    def begin(self) -> None:
        """Make the calling thread's stream, behind all that was asked of the device so far."""
        if self._device.type == "cuda":
            self._own.stream = torch.cuda.Stream(self._device)
            self._own.stream.wait_stream(torch.cuda.default_stream(self._device))

    def mark(self) -> torch.cuda.Event | None:
        """What the calling thread has asked of the device so far, for `use` to wait for."""
        if self._device.type != "cuda":
            return None
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event

    @contextmanager
    def use(self, after: torch.cuda.Event | None = None) -> Iterator[None]:
        """Run what is inside on the thread's own stream, once `after` is done."""
        stream = getattr(self._own, "stream", None)
        if stream is None:
            yield
            return
        if after is not None:
            stream.wait_event(after)
        with torch.cuda.stream(stream):
            yield


def workers(name: str, streams: SideStreams, device: torch.device) -> Executor:
    """Threads beside the engine's. Apple's GPU has none: torch crashes there when two threads compute at once."""
    if device.type == "mps":
        return _InPlace()
    return ThreadPoolExecutor(WORKERS.get(device.type, 1), name, _begin, (streams, torch.get_num_threads()))


def _begin(streams: SideStreams, threads: int) -> None:
    """Kernels on half of the cores: with all of them, they and the engine's wait for each other."""
    torch.set_num_threads(max(1, threads // 2))
    streams.begin()


class _InPlace(Executor):
    """Does everything at once, in the thread that asks for it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
