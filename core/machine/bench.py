"""How fast the engine runs: a tick's time, its parts, its memory, and how near it comes to the memory's bandwidth.

Weights are made in memory: what a tick costs depends on shapes and types, not on values.
"""

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from personaplex.core.config import CODEBOOKS, FRAME_SAMPLES, PERSONAPLEX_7B, USER, DepthConfig, ModelConfig
from personaplex.core.engine.live import BUDGET_MS
from personaplex.core.engine.session import Persona
from personaplex.core.engine.slots import Engine, Watch
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import CHUNK_FRAMES, Mimi
from personaplex.core.nn.int8 import LARGEST, Int8Matrix
from personaplex.core.nn.precision import settle
from personaplex.core.sampling.draw import Sampling

WARM_UP = 3
PARTS_TICKS = 4

# Between the packaged model and the published one: about 0.6 billion parameters.
SHAPE_700M = replace(
    PERSONAPLEX_7B,
    lm=replace(
        PERSONAPLEX_7B.lm,
        dim=1024,
        num_heads=16,
        num_layers=16,
        feedforward=2816,
        depth=DepthConfig(dim=512, num_heads=8, num_layers=6, feedforward=1408, codebooks=16),
    ),
)

_PATTERN = 2**20
_COPY_BYTES = 2**28

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@dataclass(frozen=True)
class BenchRow:
    """Figures for one number of slots. Times are milliseconds; `parts` are of a tick, the codec's for all slots."""

    slots: int
    ms_per_tick: float
    ms_per_tick_p95: float
    times_real_time: float
    peak_memory_bytes: int
    parts: dict[str, float]
    bytes_per_tick: int
    bandwidth_fraction: float
    ticks_over_budget: float


def random_model(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, seed: int, int8: bool = False
) -> tuple[LM, Mimi]:
    """A model of these shapes with values of about the size that real weights have, its temporal layers in `int8`."""
    settle()
    with torch.device("meta"):
        lm, mimi = LM(config.lm), Mimi(config.mimi)
        if int8:
            lm.temporal.hold_int8()
    return _filled(lm, device, dtype, seed), _filled(mimi, device, torch.float32, seed)


def _filled(module: AnyModule, device: torch.device, dtype: torch.dtype, seed: int) -> AnyModule:
    generator = torch.Generator().manual_seed(seed)
    pattern = (torch.rand(_PATTERN, generator=generator) * 2 - 1).to(device, dtype)
    in_int8 = (pattern.float() * LARGEST).round().to(torch.int8)
    values: dict[str, Tensor] = {}
    for name, matrix in module.named_modules():
        if isinstance(matrix, Int8Matrix):
            size = matrix.shape.numel()
            weight = in_int8.repeat(-(-size // _PATTERN))[:size].view(matrix.shape)
            scale = torch.full(matrix.scale.shape, math.sqrt(3 / matrix.shape[1]) / LARGEST, device=device)
            values |= {f"{name}.weight": weight, f"{name}.scale": scale}
    for name, parameter in module.named_parameters():
        if name in values:
            continue
        flat = torch.empty(parameter.numel(), device=device, dtype=dtype)
        for start in range(0, len(flat), _PATTERN):
            part = flat[start : start + _PATTERN]
            part.copy_(pattern[: len(part)])
        is_scale = name.endswith(("alpha", "cluster_usage")) or ".norm" in name
        if is_scale:
            flat.fill_(1)
        else:
            flat *= math.sqrt(3 / max(1, parameter.shape[-1]))
        values[name] = flat.view(parameter.shape)
    module.load_state_dict(values, strict=True, assign=True)
    return module.requires_grad_(False).eval()


@dataclass(frozen=True)
class Work:
    """`frames` ticks of `slots` calls that all have `context_used` positions behind them."""

    slots: int
    frames: int
    context_used: int
    graphs: bool = True


def run(lm: LM, mimi: Mimi, work: Work, copy_bytes_per_second: float) -> BenchRow:
    """Time some work, whole and in its parts (these without graphs)."""
    slots = work.slots
    reset_peak_memory(lm.device)
    bench = _Bench(lm, work)
    for _ in range(WARM_UP):
        bench.tick()
    ticks = [bench.tick() for _ in range(work.frames)]
    parts = bench.parts()
    parts["codec"] = slots * codec_ms_per_frame(mimi)
    median = statistics.median(ticks)
    read = bytes_per_tick(lm, slots, work.context_used)
    return BenchRow(
        slots=slots,
        ms_per_tick=round(median, 3),
        ms_per_tick_p95=round(float(np.percentile(ticks, 95)), 3),
        times_real_time=round(slots * BUDGET_MS / (median + parts["codec"]), 3),
        peak_memory_bytes=peak_memory(lm.device),
        parts={name: round(spent, 3) for name, spent in parts.items()},
        bytes_per_tick=read,
        bandwidth_fraction=round(read / copy_bytes_per_second / (median / 1000), 3),
        ticks_over_budget=round(sum(tick > BUDGET_MS for tick in ticks) / len(ticks), 3),
    )


@dataclass
class _Clock:
    """Time spent inside some functions."""

    device: torch.device
    spent: dict[str, float] = field(default_factory=dict)

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() * 1000

    @contextmanager
    def timed(self, owner: Any, method: str, name: str) -> Iterator[None]:
        """Add up the time of `owner.method` under `name` while in the context."""
        real: Callable[..., Any] = getattr(owner, method)

        def wrapped(*arguments: Any, **more: Any) -> Any:
            start = self.now()
            try:
                return real(*arguments, **more)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + self.now() - start

        object.__setattr__(owner, method, wrapped)
        try:
            yield
        finally:
            object.__delattr__(owner, method)


class _Bench:
    """An engine with calls in all of its slots."""

    def __init__(self, lm: LM, work: Work) -> None:
        ticks = WARM_UP + work.frames + PARTS_TICKS
        self._lm = lm
        self._sampling = Sampling()
        self._clock = _Clock(lm.device)
        self._engine = Engine(lm, work.slots, work.context_used + 1 + ticks, self._sampling, work.graphs)
        self._user = torch.zeros(work.slots, CODEBOOKS, dtype=torch.int64)
        persona = filled_persona(lm, work.context_used)
        for slot in range(work.slots):
            self._engine.admit(slot, persona, slot, ticks)

    def tick(self, watch: Watch | None = None) -> float:
        """Milliseconds of one tick, which is no graph if it is watched."""
        start = self._clock.now()
        self._engine.step(self._user, watch)
        return self._clock.now() - start

    def parts(self) -> dict[str, float]:
        """Milliseconds of a tick's parts; what is in none of them is `other`."""
        clock = self._clock
        with (
            clock.timed(self._lm.temporal, "step", "temporal"),
            clock.timed(self._lm.depth, "forward", "depth"),
            clock.timed(self._sampling, "choose", "sampling"),
        ):
            whole = sum(self.tick(lambda _stream, _logits: None) for _ in range(PARTS_TICKS)) / PARTS_TICKS
        spent = {name: total / PARTS_TICKS for name, total in clock.spent.items()}
        # Of a tick's nine draws, eight are made inside the depth transformer.
        spent["depth"] -= spent["sampling"] * CODEBOOKS / (CODEBOOKS + 1)
        return spent | {"other": max(0.0, whole - sum(spent.values()))}


def filled_persona(lm: LM, context_used: int) -> Persona:
    """A prompt of `context_used` positions whose keys and values are random."""
    with torch.inference_mode():
        state = lm.zeros(1, max(1, context_used))
        state.cache.keys.uniform_(-1, 1)
        state.cache.values.uniform_(-1, 1)
        state.cache.advance(context_used, [True])
        state.held[:, USER] = 0  # a live call's user codes are never free
    return Persona(state, context_used + 1)


def codec_ms_per_frame(mimi: Mimi) -> float:
    """Milliseconds to encode and decode a frame of one call, in the chunks that a batch uses."""
    samples = torch.rand(2 * CHUNK_FRAMES * FRAME_SAMPLES, generator=torch.Generator().manual_seed(0)) - 0.5
    times = []
    for _ in range(2):
        start = time.perf_counter()
        mimi.decode_call(mimi.encode_call(samples))
        times.append(time.perf_counter() - start)
    return min(times) * 1000 / (2 * CHUNK_FRAMES)


def bytes_per_tick(lm: LM, slots: int, context_used: int) -> int:
    """What a tick must read: every weight but the embedding tables, once, and the keys and values in use."""
    tables = {id(lm.emb), id(lm.text_emb), id(lm.depth.emb), id(lm.depth.text_emb)}
    weights = sum(p.numel() * p.element_size() for p in lm.parameters() if id(p) not in tables)
    config = lm.config
    kept = min(context_used + 1, config.window)
    return weights + slots * kept * 2 * config.num_layers * config.dim * lm.dtype.itemsize


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that a large copy reads and writes, the best of several."""
    source = torch.ones(_COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    clock = _Clock(device)
    best = math.inf
    for _ in range(5):
        start = clock.now()
        target.copy_(source)
        best = min(best, clock.now() - start)
    return 2 * _COPY_BYTES / (best / 1000)


def reset_peak_memory(device: torch.device) -> None:
    """Begin a new high-water mark, where the system lets us."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> int:
    """Bytes at the high-water mark: held of a GPU for tensors and graphs, else of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
