"""N slots, one tick: admit calls, step all of them by a frame, release them. It knows no files and no queue."""

from collections.abc import Callable

import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS
from personaplex.core.engine.graphs import StepGraphs, can_capture
from personaplex.core.engine.session import Persona
from personaplex.core.lm.model import LM
from personaplex.core.lm.state import FREE
from personaplex.core.nn import fused
from personaplex.core.nn.products import lay_out
from personaplex.core.sampling.draw import TEXT_STREAM, Sampling
from personaplex.core.sampling.repetition import Said, discourage

Watch = Callable[[int, Tensor], None]


class Engine:
    """A fixed number of slots, each of which takes one call at a time.

    `positions` is the longest call's prompt and live frames: the cache is no longer than that. What a slot computes
    depends on its own call alone. `graphs` replays ticks as CUDA graphs, on a GPU only. With `forces`, ticks may force
    tokens; with `remembers`, calls may have a sampling of their own that avoids repetition.
    """

    def __init__(
        self,
        lm: LM,
        slots: int,
        positions: int,
        sampling: Sampling,
        graphs: bool = False,
        *,
        forces: bool = False,
        remembers: bool = False,
    ) -> None:
        lay_out(lm, slots)
        self.slots = slots
        self.positions = positions
        self._lm = lm
        self._sampling = sampling
        self._state = lm.zeros(slots, positions)
        remembers = remembers or sampling.avoids_repetition
        self._said = Said.zeros(slots, positions, lm.device) if remembers else None
        self._own: dict[Sampling, Tensor] = {}  # by sampling, which slots' calls have it: bool [slots]
        self._active = [False] * slots
        self._seed = torch.zeros(slots, dtype=torch.int64, device=lm.device)
        self._frame = torch.zeros(slots, dtype=torch.int64, device=lm.device)
        # A graph reads its inputs where they lay when it was captured, so they never move.
        self._mask = torch.zeros(slots, dtype=torch.bool, device=lm.device)
        self._user = torch.zeros(slots, CODEBOOKS, dtype=torch.int64, device=lm.device)
        forced = torch.full((slots, 1 + CODEBOOKS), FREE, device=lm.device)
        self._forced = forced if forces else None
        self._graphs = StepGraphs(self._changed()) if graphs and can_capture(lm.device) else None

    def _changed(self) -> list[Tensor]:
        """What a tick changes and the next one depends on, but for what it only appends to."""
        state = self._state
        said = [] if self._said is None else [self._said.count]
        return [state.column, state.held, state.cache.length, *said]

    @torch.inference_mode()
    def admit(self, slot: int, persona: Persona, seed: int, calls: int, sampling: Sampling | None = None) -> None:
        """Start a call of `calls` live calls in an idle slot; a ValueError if it is longer than `positions`.

        `sampling` is its own, in place of the engine's.
        """
        if persona.steps + calls > self.positions:
            raise ValueError(f"{persona.steps} + {calls} calls in an engine for {self.positions}")
        self._state.copy_row(slot, persona.state, 0)
        self._seed[slot] = seed
        self._frame[slot] = 0
        self._active[slot] = True
        self._mask[slot] = True
        if sampling not in (None, self._sampling):
            self._own.setdefault(sampling, torch.zeros_like(self._mask))[slot] = True

    @torch.inference_mode()
    def release(self, slot: int) -> None:
        """End the call in a slot; the slot is idle until the next `admit`."""
        self._active[slot] = False
        self._mask[slot] = False
        self._state.reset([slot])
        for sampling, rows in list(self._own.items()):
            rows[slot] = False
            if not rows.any():
                del self._own[sampling]
        if self._said is not None:
            self._said.reset([slot])

    @torch.inference_mode()
    def step(self, user: Tensor, watch: Watch | None = None, forced: Tensor | None = None) -> Tensor:
        """One frame of every admitted call: user codes int64 [slots, 8] -> tokens int64 [slots, 9] on the device.

        Live frame u returns the agent's frame before it (text, then codebooks 0-7); for u = 0 that is the prompt's
        last frame. Rows of idle slots mean nothing. `watch(stream, logits)` sees the model's logits; such a tick
        is never a graph. A token of `forced`, int64 [slots, 9], that is not FREE takes the place of a drawn one: the
        text and codebook 0 of live frame u, and codebooks 1-7 of frame u - 1, since these are delayed.
        """

        def choose(logits: Tensor, stream: int) -> Tensor:
            if watch is not None:
                watch(stream, logits)
            return self._choose(logits, stream)

        def compute() -> Tensor:
            return self._lm.step(self._state, self._user, self._mask, choose)

        on_cuda = self._user.is_cuda
        # Apple's GPU would read memory that is not pinned later, when it may be another's.
        self._user.copy_(user.pin_memory() if on_cuda else user, non_blocking=on_cuda)
        if self._forced is not None:
            self._forced.fill_(FREE) if forced is None else self._forced.copy_(forced)
        if self._graphs is None or watch is not None or self._own:
            frames = compute()
        else:
            # The fused attention looks up on the device how many keys a row has, so one graph does for all lengths.
            read = 0 if fused.is_used(self._lm.device) else self._state.cache.read
            frames = self._graphs.run(read, compute)
        self._state.cache.count(1, self._active)
        self._frame += 1
        return frames

    def _choose(self, logits: Tensor, stream: int) -> Tensor:
        """The tokens [slots] of a stream: forced, or drawn by each call's sampling."""
        tokens = self._drawn(self._sampling, logits, stream)
        for sampling, rows in self._own.items():
            tokens = torch.where(rows, self._drawn(sampling, logits, stream), tokens)
        if self._forced is not None:
            forced = self._forced[:, stream]
            tokens = torch.where(forced == FREE, tokens, forced)
        if stream == TEXT_STREAM and self._said is not None:
            self._said.advance(tokens, self._mask)
        return tokens

    def _drawn(self, sampling: Sampling, logits: Tensor, stream: int) -> Tensor:
        if stream == TEXT_STREAM and self._said is not None and sampling.avoids_repetition:
            logits = discourage(logits, self._said, sampling.repetition_penalty, sampling.no_repeat_ngram)
        return sampling.choose(logits, stream, self._seed, self._frame)
