"""How much memory a model needs, from its shapes alone, and how many slots there is room for."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import psutil
import torch

from personaplex.core.config import CODEBOOKS, ModelConfig
from personaplex.core.engine.personas import GPU_BYTES
from personaplex.core.engine.streams import WORKERS
from personaplex.core.lm.model import LM
from personaplex.core.weights.filling import with_depth_steps
from personaplex.core.weights.layout import Layout, lm_layout, mimi_layout


@dataclass(frozen=True)
class ModelSize:
    """Parameters of a checkpoint and bytes in memory; `lm_run` leaves out the depth steps that are not run."""

    lm_parameters: int
    lm_run: int
    mimi: int
    positions: int
    weights_bytes: int
    cache_bytes: int

    @property
    def total_bytes(self) -> int:
        """Weights and cache."""
        return self.weights_bytes + self.cache_bytes

    def as_dict(self) -> dict[str, Any]:
        """All figures."""
        return asdict(self) | {"total_bytes": self.total_bytes}


def model_size(config: ModelConfig, slots: int, positions: int, width: int, int8: bool = False) -> ModelSize:
    """The size of a model that runs `slots` calls of `positions` positions in a type of `width` bytes.

    `int8`: with the temporal layers' weights in that.
    """
    stored = _count(lm_layout(config.lm))
    run = _count(lm_layout(with_depth_steps(config.lm, CODEBOOKS)))
    mimi = _count(mimi_layout(config.mimi))
    kept = min(positions, config.lm.window)
    return ModelSize(
        lm_parameters=stored,
        lm_run=run,
        mimi=mimi,
        positions=kept,
        weights_bytes=run * width + mimi * 4 - (_saved(config, width) if int8 else 0),
        cache_bytes=cache_bytes(config, slots, positions, width),
    )


def _saved(config: ModelConfig, width: int) -> int:
    """Bytes that weights in int8 spare, their scales subtracted."""
    quantised = [place.shape for place in lm_layout(config.lm).values() if place.is_quantised]
    return sum(rows * (columns * (width - 1) - 4) for rows, columns in quantised)


def cache_bytes(config: ModelConfig, slots: int, positions: int, width: int) -> int:
    """Bytes of the keys and values of an engine of `slots` slots for calls of `positions` positions."""
    lm = config.lm
    return 2 * lm.num_layers * slots * min(positions, lm.window) * lm.dim * width


MOST_SLOTS = {"cpu": 32, "mps": 32, "cuda": 128}  # beyond these a tick's cost grows with its rows
_USABLE = 0.7  # of a host's free memory; the rest is for activations, the codec and prefilled prompts

# What CUDA needs beside weights and caches, by estimate: a codec's chunk takes 0.14 GiB by its shapes, and the
# convolutions some room; graph, library workspaces and loaded kernels take the rest.
_GPU_REST = 2**30 + GPU_BYTES + 2 * WORKERS["cuda"] * 2**28
_GPU_USABLE = 0.95  # of what remains, since blocks of other sizes leave gaps
GPU_SLOTS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)  # few, so that a little more or less memory gives the same bits


def free_bytes(device: torch.device) -> int:
    """Memory that is free for new tensors on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def default_slots(calls: int, slot_bytes: int, device: torch.device, to_load: int = 0) -> int:
    """How many of `calls` calls to run at a time, each with a cache of `slot_bytes`: at least one.

    `to_load` are the bytes of weights that are yet to be loaded.
    """
    free = free_bytes(device) - to_load
    if device.type == "cuda":
        fitting = _GPU_USABLE * (free - _GPU_REST) / max(1, slot_bytes)
        return max(1, min(calls, max(slots for slots in GPU_SLOTS if slots <= max(1, fitting))))
    return max(1, min(calls, int(_USABLE * free) // max(1, slot_bytes), MOST_SLOTS.get(device.type, 1)))


def allocatable_slots(lm: LM, slots: int, positions: int) -> int:
    """`slots`, halved until a GPU has memory for a cache of so many; its error where there is none for one."""
    while lm.device.type == "cuda":
        try:
            lm.zeros(slots, positions)
            return slots
        except torch.OutOfMemoryError:
            if slots == 1:
                raise
        slots //= 2
        torch.cuda.empty_cache()
    return slots


def choose_slots(asked: int | None, calls: int, slot_bytes: int, device: torch.device, to_load: int = 0) -> int:
    """The asked-for number of slots, or as many as fit into the free memory, each with a cache of `slot_bytes`.

    `to_load` are the bytes of weights that are yet to come. A CPU needs no more than there are calls. Elsewhere another
    number might give other bits, so that what is left of a batch takes no fewer than the whole.
    """
    if asked is None:
        return default_slots(calls, slot_bytes, device, to_load)
    return max(1, min(asked, calls)) if device.type == "cpu" else asked


def _count(layout: Layout) -> int:
    return sum(math.prod(place.shape) for place in layout.values() if not place.optional)
