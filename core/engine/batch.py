"""A supply of calls through the engine's slots: longest first, each slot refilled as soon as its call ends.

Worker threads read and encode calls ahead of their slot, others decode and deliver them behind it, so the engine never
waits for a file. Of a call that waits little is in memory: the codes before its slot, the tokens behind it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.call import Align, Prepared, finish, live_calls, prepare
from personaplex.core.engine.job import Failure, Job, Response
from personaplex.core.engine.personas import Personas
from personaplex.core.engine.retry import Retry
from personaplex.core.engine.slots import Engine
from personaplex.core.engine.streams import SideStreams, workers
from personaplex.core.engine.supply import Longest, Supply
from personaplex.core.errors import PersonaplexError
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Model

AHEAD = 2  # calls encoded beyond those that the slots hold, and calls that may wait for delivery

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
    """Runs jobs on a model. `deliver` is called with every response, on a worker behind the engine: on CUDA on several.

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
        self._streams = SideStreams(model.device)
        self._again = Retry(model.device)

    def stop(self) -> None:
        """Start nothing new and drop the calls in the slots; those already behind the engine are delivered."""
        self._stop.set()

    def run(self, jobs: Sequence[Job]) -> Generator[Delivered | Failure, None, None]:
        """What `deliver` returned for each job, or why it failed, in the order in which they end; longest first.

        Calls are run while the iterator is asked for the next one. Closed early, it drops those in the slots, as `stop`
        does.
        """
        if jobs:
            yield from self.follow(Longest(jobs), positions(jobs, self._plan.align))

    def follow(self, supply: Supply[Job], longest: int) -> Generator[Delivered | Failure, None, None]:
        """As `run`, of the jobs of a supply in its order, for each of which `longest` positions suffice."""
        plan = self._plan
        engine = Engine(self._model.lm, plan.slots, longest, plan.sampling, plan.graphs)
        personas = Personas(self._model)
        ahead: deque[tuple[Job, Future[Prepared]]] = deque()
        behind: deque[tuple[Job, Future[Delivered]]] = deque()
        live: dict[int, Live] = {}
        device, most = self._model.device, queue_length(self._model.device, plan.slots)
        with (
            workers("encode", self._streams, device) as encoder,
            workers("deliver", self._streams, device) as deliverer,
        ):
            try:
                while not self._stop.is_set():
                    while len(ahead) < most:
                        job = supply.take(waits=not (ahead or live or behind))
                        if job is None:
                            break
                        ahead.append((job, encoder.submit(self._again, self._prepare, job)))
                    if not (ahead or live or behind):
                        break  # the supply has waited in vain: it is over
                    while ahead and len(live) < self._plan.slots and (ahead[0][1].done() or not live):
                        failure = self._admit(engine, personas, live, *ahead.popleft())
                        if failure is not None:
                            yield failure
                    if live:
                        self._tick(engine, live)
                        for slot in [slot for slot, call in live.items() if len(call.frames) == call.total]:
                            engine.release(slot)
                            call = live.pop(slot)
                            behind.append((call.job, deliverer.submit(self._finish, call, self._streams.mark())))
                    while behind and (behind[0][1].done() or len(behind) > most or not (ahead or live)):
                        yield self._outcome(*behind.popleft())
            finally:  # also where whoever iterates has seen enough
                for _, future in ahead:
                    future.cancel()
            while behind:
                yield self._outcome(*behind.popleft())

    def _prepare(self, job: Job) -> Prepared:
        with self._streams.use():
            return prepare(job, self._model.mimi, self._model.config, self._plan.align)

    def _admit(
        self, engine: Engine, personas: Personas, live: dict[int, Live], job: Job, future: Future[Prepared]
    ) -> Failure | None:
        try:
            prepared = future.result()
            start = time.perf_counter()
            persona = self._again(personas.get, job.prompt)
        except (PersonaplexError, torch.OutOfMemoryError) as error:
            return Failure(job, self._again.told(error))
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

    def _finish(self, call: Live, ticked: torch.cuda.Event | None) -> Delivered:
        seconds = call.seconds | {"live": time.perf_counter() - call.started}

        def decode() -> Response:
            with self._streams.use(ticked):
                frames = torch.stack(call.frames)
                return finish(call.prepared, frames, self._model.mimi, self._plan.align, seconds)

        return self._deliver(self._again(decode))

    def _outcome(self, job: Job, future: Future[Delivered]) -> Delivered | Failure:
        try:
            return future.result()
        except (PersonaplexError, torch.OutOfMemoryError) as error:
            return Failure(job, self._again.told(error))


def queue_length(device: torch.device, slots: int) -> int:
    """How many calls may wait before the engine, and how many behind it.

    On CUDA as many as there are slots, since all of them may end in one tick, and the engine would stand still until
    their successors are encoded. Elsewhere the codec competes with the engine for the same cores, and gains nothing.
    """
    return max(AHEAD, slots) if device.type == "cuda" else AHEAD
