"""The two ends of a call, off the engine's path: recording -> user codes before it, tokens -> samples after it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from personaplex.core.audio import reading
from personaplex.core.audio.activity import caller_frames
from personaplex.core.config import FRAME_RATE, FRAME_SAMPLES, ModelConfig
from personaplex.core.engine.job import Job, Response
from personaplex.core.engine.session import silence
from personaplex.core.mimi.codec import Mimi

Align = Literal["reference", "model"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A call ready for a slot: user codes int64 [calls, 8], one row a live call; `caller` as in `Response`."""

    job: Job
    codes: Tensor
    samples: int
    caller: npt.NDArray[np.bool_]
    info: reading.AudioInfo
    warnings: tuple[str, ...]
    seconds: dict[str, float]


def live_calls(frames: int, align: Align) -> int:
    """Live calls for `frames` frames of input; aligned to the model, one more hears the agent's last frame."""
    return frames + (align == "model")


def prepare(job: Job, mimi: Mimi, config: ModelConfig, align: Align) -> Prepared:
    """Read and encode a call's input; raises InputError."""
    start = time.perf_counter()
    recording = reading.read(job.input, channel=job.channel, offset=job.offset, duration=job.duration)
    read = time.perf_counter()
    codes = mimi.encode_call(torch.from_numpy(recording.samples)).cpu()
    if align == "model":
        codes = torch.cat([codes, silence(config)[None]])
    seconds = {"read": read - start, "encode": time.perf_counter() - read}
    warnings = (*recording.warnings, *context_warnings(job.prompt.steps, len(codes), config))
    caller = caller_frames(recording.samples)
    return Prepared(job, codes, len(recording.samples), caller, recording.info, warnings, seconds)


def context_warnings(steps: int, calls: int, config: ModelConfig) -> tuple[str, ...]:
    """What to say of a call whose `calls` live calls are more than a prompt of `steps` leaves room for."""
    # Live call u reads position P - 1 + u and sees `window` of them, so from u = window + 1 - P the first is gone.
    free = config.lm.window + 1 - steps
    if calls <= free:
        return ()
    second = max(0, free) / FRAME_RATE
    return (f"longer than the context: the persona starts to be forgotten at {second:.2f} s",)


def finish(prepared: Prepared, frames: Tensor, mimi: Mimi, align: Align, seconds: dict[str, float]) -> Response:
    """Decode a call's returned frames int64 [calls, 9] and trim the samples to the input's length."""
    start = time.perf_counter()
    samples = mimi.decode_call(frames[:, 1:])
    return respond(prepared, frames, samples, align, seconds | {"decode": time.perf_counter() - start})


def respond(
    prepared: Prepared,
    frames: Tensor,
    decoded: Tensor,
    align: Align,
    seconds: Mapping[str, float],
    pace: Mapping[str, Any] | None = None,
) -> Response:
    """The response of returned frames int64 [calls, 9] and their samples [calls * 1920], aligned and trimmed."""
    samples = decoded.numpy()
    if align == "model":
        frames, samples = frames[1:], samples[FRAME_SAMPLES:]
    tokens = frames.cpu().numpy().astype(np.int32)
    return Response(
        job=prepared.job,
        tokens=tokens,
        user_codes=prepared.codes[: len(tokens)].numpy().astype(np.int32),
        samples=np.ascontiguousarray(samples[: prepared.samples]),
        caller=prepared.caller,
        info=prepared.info,
        warnings=prepared.warnings,
        seconds={**prepared.seconds, **seconds},
        pace=pace,
    )
