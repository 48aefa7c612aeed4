"""A live duplex session, simulated: the caller's frames arrive one by one as from a microphone, and each is encoded,
stepped and decoded at once.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.audio import reading
from personaplex.core.audio.activity import caller_frames
from personaplex.core.config import FRAME_RATE, FRAME_SAMPLES
from personaplex.core.engine.call import Align, Prepared, context_warnings, live_calls, respond
from personaplex.core.engine.job import Job, Response
from personaplex.core.engine.personas import Personas
from personaplex.core.engine.session import silence
from personaplex.core.engine.slots import Engine
from personaplex.core.nn import fused
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Model

BUDGET_MS = 1000 / FRAME_RATE  # what a live call has for a frame

Watch = Callable[[str, int, int], None]


def run_live(
    job: Job, model: Model, sampling: Sampling, align: Align, graphs: bool = False, watch: Watch | None = None
) -> Response:
    """The response to a call whose frame u is complete (u + 1) · 80 ms after its start, and not heard before.

    It differs from a batch's in rounding at most, since the codec sees single frames. `graphs` replays ticks as a CUDA
    graph where one does for all of them. `watch(id, done, total)` is
    called after every frame. Raises InputError and VoiceError.
    """
    begun = time.perf_counter()
    recording = reading.read(job.input, channel=job.channel, offset=job.offset, duration=job.duration)
    samples = torch.from_numpy(recording.samples)
    total = live_calls(reading.frame_count(len(samples)), align)
    frames = F.pad(samples, (0, total * FRAME_SAMPLES - len(samples))).view(total, 1, 1, FRAME_SAMPLES)
    read = time.perf_counter()
    session = _Session(job, model, sampling, total, graphs)
    session.warm_up()
    start = time.perf_counter()
    latencies = []
    for number, frame in enumerate(frames):
        heard = number < reading.frame_count(len(samples))  # the last call of --align model hears nobody
        arrival = start + (number + 1) / FRAME_RATE
        time.sleep(max(0.0, arrival - time.perf_counter()))
        session.take(frame if heard else None)
        latencies.append((time.perf_counter() - arrival) * 1000)
        if watch is not None:
            watch(job.id, number + 1, total)
    warnings = (*recording.warnings, *context_warnings(job.prompt.steps, total, model.config))
    seconds = {"read": read - begun, "prompt": start - read, "live": time.perf_counter() - start}
    codes, caller = torch.stack(session.codes), caller_frames(recording.samples)
    prepared = Prepared(job, codes, len(samples), caller, recording.info, warnings, seconds)
    decoded = torch.cat(session.decoded)
    return respond(prepared, torch.stack(session.frames), decoded, align, {}, pace=pace_summary(latencies))


class _Session:
    """An engine of one slot between the codec's two directions."""

    def __init__(self, job: Job, model: Model, sampling: Sampling, calls: int, graphs: bool) -> None:
        self._model = model
        self._job, self._calls = job, calls
        self._persona = Personas(model).get(job.prompt)
        # Capturing takes as long as several frames: without the fused attention every 128th would be late.
        graphs = graphs and fused.is_used(model.device)
        self._engine = Engine(model.lm, 1, job.prompt.steps + calls, sampling, graphs)
        self._begin()

    def _begin(self) -> None:
        mimi = self._model.mimi
        self._encoder, self._decoder = mimi.encoder_zeros(), mimi.decoder_zeros()
        self._engine.admit(0, self._persona, self._job.seed, self._calls)
        self.codes: list[Tensor] = []  # [8] each
        self.frames: list[Tensor] = []  # [9] each
        self.decoded: list[Tensor] = []  # [1920] each

    def warm_up(self) -> None:
        """Run a frame and forget it: on a GPU the first one takes a second or two, to set up kernels and the graph."""
        self.take(torch.zeros(1, 1, FRAME_SAMPLES))
        self._engine.release(0)
        self._begin()

    def take(self, samples: Tensor | None) -> None:
        """One frame of samples [1, 1, 1920], or None for silence, through the model and out as sound."""
        mimi = self._model.mimi
        if samples is None:
            codes = silence(self._model.config)
        else:
            codes = mimi.encode(samples.to(mimi.device), self._encoder)[0, :, 0].cpu()
        frame = self._engine.step(codes[None])[0].cpu()
        sound = mimi.decode(frame[None, 1:, None].to(mimi.device), self._decoder)[0, 0].cpu()
        self.codes.append(codes)
        self.frames.append(frame)
        self.decoded.append(sound)


def pace_summary(latencies: list[float]) -> dict[str, Any]:
    """How long after a frame's arrival its answer was there, in ms; missed are those later than the next arrival."""
    missed = sum(latency > BUDGET_MS for latency in latencies)
    points = {f"p{percent}": round(float(np.percentile(latencies, percent)), 3) for percent in (50, 90, 95, 99)}
    return {
        "frames": len(latencies),
        "budget_ms": BUDGET_MS,
        "latency_ms": {**points, "max": round(max(latencies), 3)},
        "missed": missed,
        "missed_share": round(missed / len(latencies), 4),
    }
