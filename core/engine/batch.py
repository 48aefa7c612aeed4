"""A queue of calls through the engine's slots: longest first, each slot refilled as soon as its call ends.

One worker thread reads and encodes calls ahead of their slot, another decodes and delivers them behind it, so the
engine never waits for a file and at most a few calls are in memory.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.call import Align, Prepared, finish, live_calls, prepare
from personaplex.core.engine.job import Failure, Job, Response
from personaplex.core.engine.personas import Personas
from personaplex.core.engine.slots import Engine
from personaplex.core.engine.streams import side_stream
from personaplex.core.errors import PersonaplexError
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Model

AHEAD = 2  # calls encoded beyond those that the slots hold

Delivered = TypeVar("Delivered")


@dataclass(frozen=True)
class Plan:
    """How a batch runs; only `sampling` and `align` shape what a call gives."""

    slots: int
    sampling: Sampling = field(default_factory=Sampling)
    align: Align = "reference"
    graphs: bool = True


@dataclass(eq=False)
class Live:
    """A call in a slot: how far it is, and the frames it has returned."""

    prepared: Prepared
    seconds: dict[str, float]
    started: float
    frames: list[Tensor] = field(default_factory=list)

    @property
    def job(self) -> Job:
        """The call's job."""
        return self.prepared.job

    @property
    def total(self) -> int:
        """Live calls in all."""
        return len(self.prepared.codes)


def positions(jobs: Sequence[Job], align: Align) -> int:
    """The longest call's prompt and live calls: how long a cache need be."""
    return max((job.prompt.steps + live_calls(job.frames, align) for job in jobs), default=1)


class Batch(Generic[Delivered]):
    """Runs jobs on a model. `deliver` is called with every response, on the worker behind the engine.

    `watch` is called after every tick with the calls in the slots.
    """

    def __init__(
        self,
        model: Model,
        plan: Plan,
        deliver: Callable[[Response], Delivered],
        watch: Callable[[Sequence[Live]], None] | None = None,
    ) -> None:
        self._model = model
        self._plan = plan
        self._deliver = deliver
        self._watch = watch
        self._stop = threading.Event()

    def stop(self) -> None:
        """Start nothing new and drop the calls in the slots; those already behind the engine are delivered."""
        self._stop.set()

    def run(self, jobs: Sequence[Job]) -> Iterator[Delivered | Failure]:
        """What `deliver` returned for each job, or why it failed, in the order in which they end."""
        if not jobs:
            return
        plan = self._plan
        engine = Engine(self._model.lm, plan.slots, positions(jobs, plan.align), plan.sampling, plan.graphs)
        personas = Personas(self._model)
        waiting = deque(sorted(jobs, key=lambda job: -job.frames))
        ahead: deque[tuple[Job, Future[Prepared]]] = deque()
        behind: deque[tuple[Job, Future[Delivered]]] = deque()
        live: dict[int, Live] = {}
        with _worker("encode") as encoder, _worker("deliver") as deliverer:
            while (waiting or ahead or live) and not self._stop.is_set():
                while waiting and len(ahead) < AHEAD:
                    job = waiting.popleft()
                    ahead.append((job, encoder.submit(self._prepare, job)))
                while ahead and len(live) < self._plan.slots and (ahead[0][1].done() or not live):
                    failure = self._admit(engine, personas, live, *ahead.popleft())
                    if failure is not None:
                        yield failure
                if live:
                    self._tick(engine, live)
                    for slot in [slot for slot, call in live.items() if len(call.frames) == call.total]:
                        engine.release(slot)
                        call = live.pop(slot)
                        behind.append((call.job, deliverer.submit(self._finish, call)))
                while behind and (behind[0][1].done() or len(behind) > AHEAD):
                    yield self._outcome(*behind.popleft())
            for _, future in ahead:
                future.cancel()
            while behind:
                yield self._outcome(*behind.popleft())

    def _prepare(self, job: Job) -> Prepared:
        with side_stream(self._model.device):
            return prepare(job, self._model.mimi, self._model.config, self._plan.align)

    def _admit(
        self, engine: Engine, personas: Personas, live: dict[int, Live], job: Job, future: Future[Prepared]
    ) -> Failure | None:
        try:
            prepared = future.result()
            start = time.perf_counter()
            persona = personas.get(job.prompt)
        except PersonaplexError as error:
            return Failure(job, error)
        slot = next(slot for slot in range(self._plan.slots) if slot not in live)
        engine.admit(slot, persona, job.seed, len(prepared.codes))
        now = time.perf_counter()
        live[slot] = Live(prepared, {"prompt": now - start}, now)
        return None

    def _tick(self, engine: Engine, live: dict[int, Live]) -> None:
        user = torch.zeros(self._plan.slots, CODEBOOKS, dtype=torch.int64)
        for slot, call in live.items():
            user[slot] = call.prepared.codes[len(call.frames)]
        frames = engine.step(user)
        for slot, call in live.items():
            call.frames.append(frames[slot])
        if self._watch is not None:
            self._watch(list(live.values()))

    def _finish(self, call: Live) -> Delivered:
        seconds = call.seconds | {"live": time.perf_counter() - call.started}
        with side_stream(self._model.device):
            response = finish(call.prepared, torch.stack(call.frames), self._model.mimi, self._plan.align, seconds)
        return self._deliver(response)

    def _outcome(self, job: Job, future: Future[Delivered]) -> Delivered | Failure:
        try:
            return future.result()
        except PersonaplexError as error:
            return Failure(job, error)


def _worker(name: str) -> ThreadPoolExecutor:
    """A thread whose kernels use half of the cores: with all of them, they and the engine's wait for each other."""
    return ThreadPoolExecutor(1, name, torch.set_num_threads, (max(1, torch.get_num_threads() // 2),))
