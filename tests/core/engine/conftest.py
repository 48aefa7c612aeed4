"""A small model with prompts, and a stand-in for torch.cuda on a CPU: streams from pools, graphs that replay operators.

A graph records every operator with its arguments, and a replay runs them again on the same memory. What moves between
replays, or was a value of Python's, is then as stale as on a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from personaplex.core.engine.job import NamedVoice, Prompt
from personaplex.core.engine.session import RecordedVoice
from personaplex.core.nn.kernels import launching
from personaplex.core.nn.products import pack
from personaplex.core.weights.model import Model
from personaplex.samples import tiny

POOL = 32


class Stream:
    """One of a priority's pool; the same object comes again after 32."""

    def __init__(self, number: int, priority: int) -> None:
        self.name = (priority, number)

    def wait_stream(self, _other: Stream) -> None:
        """Nothing runs beside anything here."""

    def wait_event(self, _event: Any) -> None:
        """As above."""


class Recording(TorchDispatchMode):
    """Notes what is computed: in place as it is, else into the memory of the first result.

    A capture computes nothing on a GPU, so `undo` brings back what was changed in place.
    """

    def __init__(self, tape: list[Callable[[], None]]) -> None:
        super().__init__()
        self._tape = tape
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def undo(self) -> None:
        """Bring back what was there before."""
        for storage, value in self._before.values():
            storage.copy_(value)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        changes = function._schema.is_mutable
        for tensor in tensors((args, kwargs)) if changes else ():
            storage = tensor.untyped_storage()
            self._before.setdefault(storage.data_ptr(), (storage, storage.clone()))
        out = function(*args, **kwargs)
        inputs = {tensor.untyped_storage().data_ptr() for tensor in tensors((args, kwargs))}
        made = [tensor for tensor in tensors(out) if tensor.untyped_storage().data_ptr() not in inputs]

        def again() -> None:
            found = function(*args, **kwargs)
            if made:
                for tensor, value in zip(tensors(out), tensors(found), strict=True):
                    tensor.copy_(value)

        if changes or (made and "empty" not in str(function)):
            self._tape.append(again)
        return out


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in some arguments or results."""
    if isinstance(value, Tensor):
        if not value.is_mkldnn:  # a packed weight, which stays as it is
            yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)


class Graph:
    """A list of what to do again."""

    def __init__(self) -> None:
        self.tape: list[Callable[[], None]] = []

    def replay(self) -> None:
        """Do it again."""
        for again in self.tape:
            again()


class FakeCuda:
    """Puts itself in torch.cuda's place; `used` are the streams that threads worked on, `captured` those of graphs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.used: set[tuple[int, int]] = set()
        self.captured: set[tuple[int, int]] = set()
        self.pools: set[object] = set()
        self.graphs = 0
        self._made: dict[int, int] = {}
        self._tape: list[Callable[[], None]] | None = None
        self._real_launch = launching.launch
        self._lock = threading.Lock()
        for name in ("Stream", "stream", "graph", "graph_pool_handle"):
            patch.setattr(torch.cuda, name, getattr(self, name))
        for module in ("triton_rows", "triton_attention"):
            with suppress(ImportError):  # where there is no Triton
                patch.setattr(f"personaplex.core.nn.kernels.{module}.launch", self._launch)
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(torch.cuda, "Event", _Event)
        for name in ("current_stream", "default_stream"):
            patch.setattr(torch.cuda, name, lambda *_: Stream(0, 0))
        patch.setattr(torch.cuda, "device", lambda _: _nothing())

    def Stream(self, device: Any = None, priority: int = 0) -> Stream:  # noqa: N802
        """The next of a priority's pool."""
        with self._lock:
            number = self._made.get(priority, 0)
            self._made[priority] = number + 1
        return Stream(number % POOL, priority)

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """Work on a stream."""
        self.used.add(stream.name)
        yield

    def graph_pool_handle(self) -> object:
        """A pool of memory."""
        return object()

    @contextmanager
    def graph(self, graph: Graph, *, pool: object, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        """Capture what is inside; other threads go on meanwhile."""
        assert capture_error_mode == "thread_local"
        self.graphs += 1
        self.captured.add(stream.name)
        self.pools.add(pool)
        with Recording(graph.tape) as recording:
            self._tape = graph.tape
            yield
            self._tape = None
        recording.undo()

    def _launch(self, kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
        """Start a Triton kernel; a capture notes it as one."""
        with _disable_current_modes():
            self._real_launch(kernel, grid, *arguments, **constants)
        if self._tape is not None:
            self._tape.append(lambda: self._real_launch(kernel, grid, *arguments, **constants))


class _Event:
    def record(self, _stream: Any) -> None:
        """Nothing runs beside anything here."""


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """torch.cuda, emulated."""
    return FakeCuda(monkeypatch)


@pytest.fixture(scope="module")
def model() -> Model:
    """The packaged model."""
    made = tiny.load(torch.device("cpu"))
    pack(made.lm)
    return made


@pytest.fixture(scope="module")
def prompts(model: Model) -> list[Prompt]:
    """Of different lengths, so that calls in neighbouring slots stand at different positions."""
    made = []
    for seed, frames, text in ((1, 5, "Be brief."), (2, 8, "You answer a shop's phone; be kind to everyone.")):
        codes = torch.randint(2048, (frames, 8), generator=torch.Generator().manual_seed(seed))
        voice = NamedVoice(f"v{seed}", f"{seed}", RecordedVoice(codes))
        made.append(Prompt(voice, text, tuple(model.tokenizer.prompt_ids(text))))
    return made
