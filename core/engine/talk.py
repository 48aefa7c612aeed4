"""Two personas in conversation: pairs of slots, in which each side hears, a frame later, what the other says.

A conversation takes two slots of an engine; what it becomes depends on its own two sides alone.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from personaplex.core.audio.reading import Samples
from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.batch import queue_length
from personaplex.core.engine.ending import Ending, EndWatch, Reason
from personaplex.core.engine.job import Codes, Prompt
from personaplex.core.engine.line import Line, LineState
from personaplex.core.engine.personas import Personas
from personaplex.core.engine.retry import Retry
from personaplex.core.engine.session import silence
from personaplex.core.engine.slots import Engine
from personaplex.core.engine.streams import SideStreams, workers
from personaplex.core.errors import PersonaplexError
from personaplex.core.lm.state import FREE
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Model

SIDES = 2

Delivered = TypeVar("Delivered")


@dataclass(frozen=True, eq=False)
class Side:
    """One of two personas. `script` int64 [S, 9] holds the frames (text, codebooks 0-7) that it must begin with."""

    prompt: Prompt
    seed: int
    sampling: Sampling
    script: Tensor

    def forced(self, call: int) -> Tensor:
        """The tokens int64 [9] of `Engine.step` that the script forces in live call `call`."""
        tokens = torch.full((1 + CODEBOOKS,), FREE)
        if call < len(self.script):
            tokens[:2] = self.script[call, :2]
        if 0 < call <= len(self.script):
            tokens[2:] = self.script[call - 1, 2:]
        return tokens


@dataclass(frozen=True, eq=False)
class Conversation:
    """A conversation of at most `frames` frames; `line` None hands codes over as they are."""

    id: str
    sides: tuple[Side, Side]
    frames: int
    line: Line | None
    ending: Ending


@dataclass(frozen=True, eq=False)
class Talked:
    """What came of a conversation, frame u of which stands at 0.08·u s.

    Of each side: `tokens` int32 [F, 9] are what it said, `heard` int32 [F, 8] what it heard, `samples` float32
    [F · 1920] the sound of what it said. `reason` is why it ended; `seconds` are spent on each phase, in wall time.
    """

    conversation: Conversation
    tokens: tuple[Codes, Codes]
    heard: tuple[Codes, Codes]
    samples: tuple[Samples, Samples]
    reason: Reason
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class TalkFailure:
    """Why a conversation came to nothing."""

    conversation: Conversation
    error: PersonaplexError


@dataclass(eq=False)
class LiveTalk:
    """A conversation in its slots: what was said, int64 [2, 9] a frame, and heard, int64 [2, 8] a frame."""

    conversation: Conversation
    lines: tuple[LineState, LineState] | None
    watch: EndWatch
    silence: Tensor
    started: float
    prompt_seconds: float
    said: list[Tensor] = field(default_factory=list)
    heard: list[Tensor] = field(default_factory=list)
    reason: Reason | None = None

    def hear(self) -> Tensor:
        """What both sides hear in the next frame, int64 [2, 8]: what the other said in the last one, at first silence.

        Over a line, what arrives of it.
        """
        if not self.said:
            arriving = self.silence.repeat(SIDES, 1)
        else:
            arriving = self.said[-1][:, 1:].flip(0)
            if self.lines is not None:
                frame = len(self.said)
                arriving = torch.stack(
                    [line.carry(codes, frame) for line, codes in zip(self.lines, arriving, strict=True)]
                )
        self.heard.append(arriving)
        return arriving

    def forced(self) -> Tensor:
        """The tokens int64 [2, 9] that the scripts force in the next frame."""
        return torch.stack([side.forced(len(self.said)) for side in self.conversation.sides])

    def take(self, frame: Tensor) -> None:
        """Take what both sides returned, int64 [2, 9]."""
        self.said.append(frame)
        self.reason = self.watch.take((int(frame[0, 0]), int(frame[1, 0])))
        if self.reason is None and len(self.said) == self.conversation.frames:
            self.reason = "length"


def positions(conversations: Sequence[Conversation]) -> int:
    """The longest side's prompt and frames: how long a cache need be."""
    longest = (side.prompt.steps + one.frames for one in conversations for side in one.sides)
    return max(longest, default=1)


class Talks(Generic[Delivered]):
    """Runs conversations on a model, as many at a time as there are pairs of slots.

    `deliver` is called with each on a worker behind the engine; `watch` after every tick with those in the slots.
    """

    def __init__(
        self,
        model: Model,
        slots: int,
        sampling: Sampling,
        deliver: Callable[[Talked], Delivered],
        watch: Callable[[Sequence[LiveTalk]], None],
        graphs: bool = True,
    ) -> None:
        if slots % SIDES:
            raise ValueError(f"{slots} slots for conversations of {SIDES} sides")
        self._model = model
        self._slots = slots
        self._sampling = sampling
        self._deliver = deliver
        self._watch = watch
        self._graphs = graphs
        self._stop = threading.Event()
        self._streams = SideStreams(model.device)
        self._again = Retry(model.device)

    def stop(self) -> None:
        """Start nothing new and drop the conversations in the slots; those behind the engine are delivered."""
        self._stop.set()

    def run(self, conversations: Sequence[Conversation]) -> Generator[Delivered | TalkFailure, None, None]:
        """What `deliver` returned for each, or why it failed, in the order in which they end; longest first."""
        if not conversations:
            return
        engine, personas = self._engine(conversations), Personas(self._model)
        waiting = deque(sorted(conversations, key=lambda one: -one.frames))
        behind: deque[tuple[Conversation, Future[Delivered]]] = deque()
        live: dict[int, LiveTalk] = {}  # by the first of their two slots
        device, most = self._model.device, queue_length(self._model.device, self._slots)
        with workers("deliver", self._streams, device) as deliverer:
            while (waiting or live) and not self._stop.is_set():
                for slot in range(0, self._slots, SIDES):
                    if waiting and slot not in live:
                        failure = self._admit(engine, personas, live, slot, waiting.popleft())
                        if failure is not None:
                            yield failure
                self._tick(engine, live)
                for slot, reason in [(slot, talk.reason) for slot, talk in live.items() if talk.reason is not None]:
                    for one in range(slot, slot + SIDES):
                        engine.release(one)
                    talk = live.pop(slot)
                    behind.append((talk.conversation, deliverer.submit(self._finish, talk, reason)))
                while behind and (behind[0][1].done() or len(behind) > most):
                    yield self._outcome(*behind.popleft())
            while behind:
                yield self._outcome(*behind.popleft())

    def _engine(self, conversations: Sequence[Conversation]) -> Engine:
        sides = [side for one in conversations for side in one.sides]
        return Engine(
            self._model.lm,
            self._slots,
            positions(conversations),
            self._sampling,
            self._graphs,
            forces=any(len(side.script) for side in sides),
            remembers=any(side.sampling.avoids_repetition for side in sides),
        )

    def _admit(
        self, engine: Engine, personas: Personas, live: dict[int, LiveTalk], slot: int, one: Conversation
    ) -> TalkFailure | None:
        start = time.perf_counter()
        try:
            prefilled = [self._again(personas.get, side.prompt) for side in one.sides]
        except (PersonaplexError, torch.OutOfMemoryError) as error:
            return TalkFailure(one, self._again.told(error))
        for place, (side, persona) in enumerate(zip(one.sides, prefilled, strict=True)):
            engine.admit(slot + place, persona, side.seed, one.frames, side.sampling)
        line, mimi = one.line, self._model.mimi
        a, b = one.sides
        lines = None if line is None else (LineState(line, a.seed, mimi), LineState(line, b.seed, mimi))
        watch = EndWatch(one.ending, self._model.tokenizer, max(len(a.script), len(b.script)))
        now = time.perf_counter()
        live[slot] = LiveTalk(one, lines, watch, silence(self._model.config), now, now - start)
        return None

    def _tick(self, engine: Engine, live: dict[int, LiveTalk]) -> None:
        if not live:
            return
        user = torch.zeros(self._slots, CODEBOOKS, dtype=torch.int64)
        forced = torch.full((self._slots, 1 + CODEBOOKS), FREE)
        for slot, talk in live.items():
            user[slot : slot + SIDES] = talk.hear()
            forced[slot : slot + SIDES] = talk.forced()
        frames = engine.step(user, forced=forced).cpu()
        for slot, talk in live.items():
            talk.take(frames[slot : slot + SIDES].clone())
        self._watch(list(live.values()))

    def _finish(self, talk: LiveTalk, reason: Reason) -> Delivered:
        live = time.perf_counter() - talk.started
        said, heard = torch.stack(talk.said), torch.stack(talk.heard)
        begun = time.perf_counter()

        def decode(side: int) -> Samples:
            with self._streams.use():
                return self._model.mimi.decode_call(said[:, side, 1:]).numpy()

        samples = self._again(decode, 0), self._again(decode, 1)
        seconds = {"prompt": talk.prompt_seconds, "live": live, "decode": time.perf_counter() - begun}
        return self._deliver(Talked(talk.conversation, _both(said), _both(heard), samples, reason, seconds))

    def _outcome(self, one: Conversation, future: Future[Delivered]) -> Delivered | TalkFailure:
        try:
            return future.result()
        except (PersonaplexError, torch.OutOfMemoryError) as error:
            return TalkFailure(one, self._again.told(error))


def _both(frames: Tensor) -> tuple[Codes, Codes]:
    """[F, 2, K] -> each side's [F, K]."""
    a, b = (np.ascontiguousarray(side.numpy().astype(np.int32)) for side in frames.unbind(1))
    return a, b
