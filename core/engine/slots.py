"""N slots, one tick: admit calls, step all of them by a frame, release them. It knows no files and no queue."""

from collections.abc import Callable

import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.graphs import StepGraphs, can_capture
from personaplex.core.engine.session import Persona
from personaplex.core.lm.model import LM
from personaplex.core.nn import fused
from personaplex.core.sampling.draw import TEXT_STREAM, Sampling
from personaplex.core.sampling.repetition import Said, discourage

Watch = Callable[[int, Tensor], None]


class Engine:
    """A fixed number of slots, each of which takes one call at a time.

    `positions` is the longest call's prompt and live frames: the cache is no longer than that. What a slot computes
    depends on its own call alone. `graphs` replays ticks as CUDA graphs, on a GPU only.
    """

    def __init__(self, lm: LM, slots: int, positions: int, sampling: Sampling, graphs: bool = False) -> None:
        self.slots = slots
        self.positions = positions
        self._lm = lm
        self._sampling = sampling
        self._state = lm.zeros(slots, positions)
        self._said = Said.zeros(slots, positions, lm.device) if sampling.avoids_repetition else None
        self._active = [False] * slots
        self._seed = torch.zeros(slots, dtype=torch.int64, device=lm.device)
        self._frame = torch.zeros(slots, dtype=torch.int64, device=lm.device)
        # A graph reads its inputs where they lay when it was captured, so they never move.
        self._mask = torch.zeros(slots, dtype=torch.bool, device=lm.device)
        self._user = torch.zeros(slots, CODEBOOKS, dtype=torch.int64, device=lm.device)
        self._graphs = StepGraphs(self._changed()) if graphs and can_capture(lm.device) else None

    def _changed(self) -> list[Tensor]:
        """What a tick changes and the next one depends on, but for what it only appends to."""
        state = self._state
        said = [] if self._said is None else [self._said.count]
        return [state.column, state.held, state.cache.length, *said]

    @torch.inference_mode()
    def admit(self, slot: int, persona: Persona, seed: int, calls: int) -> None:
        """Start a call of `calls` live calls in an idle slot; a ValueError if it is longer than `positions`."""
        if persona.steps + calls > self.positions:
            raise ValueError(f"{persona.steps} + {calls} calls in an engine for {self.positions}")
        self._state.copy_row(slot, persona.state, 0)
        self._seed[slot] = seed
        self._frame[slot] = 0
        self._active[slot] = True
        self._mask[slot] = True

    @torch.inference_mode()
    def release(self, slot: int) -> None:
        """End the call in a slot; the slot is idle until the next `admit`."""
        self._active[slot] = False
        self._mask[slot] = False
        self._state.reset([slot])
        if self._said is not None:
            self._said.reset([slot])

    @torch.inference_mode()
    def step(self, user: Tensor, watch: Watch | None = None) -> Tensor:
        """One frame of every admitted call: user codes int64 [slots, 8] -> tokens int64 [slots, 9] on the device.

        Live frame u returns the agent's frame before it (text, then codebooks 0-7); for u = 0 that is the prompt's
        last frame. Rows of idle slots mean nothing. `watch(stream, logits)` sees the model's logits; such a tick
        is never a graph.
        """

        def choose(logits: Tensor, stream: int) -> Tensor:
            if watch is not None:
                watch(stream, logits)
            if stream == TEXT_STREAM and self._said is not None:
                return self._choose_text(logits, self._said)
            return self._sampling.choose(logits, stream, self._seed, self._frame)

        def compute() -> Tensor:
            return self._lm.step(self._state, self._user, self._mask, choose)

        on_cuda = self._user.is_cuda
        # Apple's GPU would read memory that is not pinned later, when it may be another's.
        self._user.copy_(user.pin_memory() if on_cuda else user, non_blocking=on_cuda)
        if self._graphs is None or watch is not None:
            frames = compute()
        else:
            # The fused attention looks up on the device how many keys a row has, so one graph does for all lengths.
            read = 0 if fused.is_used(self._lm.device) else self._state.cache.read
            frames = self._graphs.run(read, compute)
        self._state.cache.count(1, self._active)
        self._frame += 1
        return frames

    def _choose_text(self, logits: Tensor, said: Said) -> Tensor:
        sampling = self._sampling
        scores = discourage(logits, said, sampling.repetition_penalty, sampling.no_repeat_ngram)
        tokens = sampling.choose(scores, TEXT_STREAM, self._seed, self._frame)
        said.advance(tokens, self._mask)
        return tokens
