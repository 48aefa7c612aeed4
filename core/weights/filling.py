"""Checkpoint -> modules: strict, tensor by tensor, into modules built on the meta device.

No weight is ever in memory twice: a parameter is allocated where and as it will be used, and filled from the file.
"""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from personaplex.core.config import LMConfig, MimiConfig
from personaplex.core.errors import ModelError
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.int8 import LARGEST, Int8Matrix, quantised
from personaplex.core.weights.checkpoint import Checkpoint, StoredTensor, holds_int8, open_checkpoint
from personaplex.core.weights.layout import Layout, lm_layout, mimi_layout
from personaplex.core.weights.zeros import refuse_zeros

_OLD_NAMES = {
    "inited": "_initialized",
    "cluster_size": "cluster_usage",
    "embed_avg": "embedding_sum",
    "embed_sum": "embedding_sum",
}

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def load_lm(path: Path, config: LMConfig, device: torch.device, dtype: torch.dtype | None, int8: bool = False) -> LM:
    """The language model in the checkpoint `path`, in `dtype`, or as stored for None.

    Its temporal layers are in int8 if asked for, or if they are stored so.
    Raises ModelError that lists what is missing, unexpected or of the wrong shape.
    """
    checkpoint = open_checkpoint(path)
    with torch.device("meta"):
        lm = LM(config)
        if int8 or holds_int8(checkpoint):
            lm.temporal.hold_int8()
    return fill(lm, lm_layout(config), checkpoint, device, dtype or stored_dtype(checkpoint), path)


def load_mimi(path: Path, config: MimiConfig, device: torch.device) -> Mimi:
    """The codec in the checkpoint `path`, in float32; raises like `load_lm`."""
    checkpoint = {current_name(name): tensor for name, tensor in open_checkpoint(path).items()}
    with torch.device("meta"):
        mimi = Mimi(config)
    return fill(mimi, mimi_layout(config), checkpoint, device, torch.float32, path)


def depth_steps(path: Path) -> int:
    """How many depth steps a language model checkpoint holds."""
    return sum(bool(re.fullmatch(r"linears\.\d+\.weight", name)) for name in open_checkpoint(path))


def with_depth_steps(config: LMConfig, steps: int) -> LMConfig:
    """The same model with another number of depth steps in its checkpoint."""
    return replace(config, depth=replace(config.depth, codebooks=steps))


def stored_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """The type most of a checkpoint's values have, those in int8 left out."""
    counts: Counter[torch.dtype] = Counter()
    for tensor in checkpoint.values():
        if tensor.largest is None:
            counts[tensor.dtype] += torch.Size(tensor.shape).numel()
    return counts.most_common(1)[0][0] if counts else torch.float32


def fill(
    module: AnyModule, layout: Layout, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, path: Path
) -> AnyModule:
    """Replace every meta parameter of `module` by the checkpoint's values; ready for inference.

    Raises ModelError for tensors that don't fit, or that hold zeros where weights should be.
    """
    problems = misfits(layout, checkpoint)
    if problems:
        mend = "is it the checkpoint of this model? --model takes a directory with its config.json beside the weights"
        raise ModelError(f"{path}: {problems}", mend)
    matrices = {name for name, part in module.named_modules() if isinstance(part, Int8Matrix)}
    types = {f"{name}.weight": torch.int8 for name in matrices} | {f"{name}.scale": torch.float32 for name in matrices}
    values = {
        name: torch.empty(parameter.shape, device=device, dtype=types.get(name, dtype))
        for name, parameter in module.named_parameters()
    }
    for name, place in layout.items():
        if place.target is None:
            continue
        if place.target in matrices:
            weight, largest = in_int8(name, checkpoint[name], path)
            values[f"{place.target}.weight"].copy_(weight)
            values[f"{place.target}.scale"].copy_(largest / LARGEST)
            continue
        whole = values[place.target]
        part = whole if place.index is None else whole.view(-1, *place.shape)[place.index]
        rows = part.numel() * place.shape[0] // torch.Size(place.shape).numel()
        part.copy_(_in_floats(name, checkpoint[name], rows, path).reshape(part.shape))
    module.load_state_dict(values, strict=True, assign=True)
    return module.requires_grad_(False).eval()


def in_int8(name: str, tensor: StoredTensor, path: Path) -> tuple[Tensor, Tensor]:
    """A whole weight in int8, and the largest value of each row, quantised now unless it is stored so."""
    weight = tensor.read(None)
    refuse_zeros(name, weight, path)
    if tensor.largest is None:
        weight, largest = quantised(weight)
    else:
        largest = tensor.largest.read(None).float()
    if not largest.isfinite().all():
        raise ModelError(f"{path}: {name} holds values that are no numbers", "use a checkpoint that is not damaged")
    return weight, largest


def _in_floats(name: str, tensor: StoredTensor, rows: int, path: Path) -> Tensor:
    """A weight's leading rows in floating point, also of one that is stored in int8."""
    weight = tensor.read(rows)
    refuse_zeros(name, weight, path)
    if tensor.largest is None:
        return weight
    return weight * (tensor.largest.read(rows).float() / LARGEST)[:, None]


def misfits(layout: Layout, checkpoint: Checkpoint) -> str:
    """What keeps a checkpoint from filling a layout: the first missing, unexpected and misshapen tensors, or ""."""
    missing = [name for name, place in layout.items() if name not in checkpoint and not place.optional]
    unexpected = [name for name in checkpoint if name not in layout]
    misshapen = [
        f"{name} is {list(checkpoint[name].shape)}, not {list(place.shape)}"
        for name, place in layout.items()
        if name in checkpoint and checkpoint[name].shape != place.shape
    ]
    found = (("missing", missing), ("unexpected", unexpected), ("of the wrong shape", misshapen))
    return "; ".join(f"{len(names)} tensors {kind}: {_some(names)}" for kind, names in found if names)


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def current_name(name: str) -> str:
    """A codec tensor's name, whichever of its two the checkpoint uses."""
    head, _, last = name.rpartition(".")
    return f"{head}.{_OLD_NAMES[last]}" if last in _OLD_NAMES else name
