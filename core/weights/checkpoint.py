"""Checkpoint files as one table of tensors, read one at a time: `.safetensors`, shards with an index, or `.pt`.

A weight in int8 has beside it, as Kyutai publishes it, a float32 tensor of its name with `_scb` behind it: the largest
absolute value of each row, for which 127 stands.
"""

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from personaplex.core.errors import ModelError
from personaplex.core.weights.shards import shard_names

SCALES = "_scb"
DAMAGED = "the file is damaged or cut short: fetch it again"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: its shape and type, and `read(rows)`, which loads its leading rows, or all for None.

    `largest` are those of each row of a weight in int8.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[int | None], Tensor]
    largest: "StoredTensor | None" = None

    @property
    def bytes(self) -> int:
        """What it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


Checkpoint = Mapping[str, StoredTensor]


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of `path`, by name; nothing is loaded yet and nothing in the file is run.

    Raises ModelError for a missing, damaged or foreign file.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint file", "check --model, --moshi-weight and --mimi-weight")
    if path.name.endswith(".index.json"):
        shards = map(_open_safetensors, shard_paths(path))
        return _paired({name: tensor for shard in shards for name, tensor in shard.items()}, path)
    opened = _open_pickled(path) if path.suffix in {".pt", ".pth", ".bin"} else _open_safetensors(path)
    return _paired(opened, path)


def _paired(tensors: Checkpoint, path: Path) -> Checkpoint:
    """Weights in int8 with their scales, which are no tensors of their own then."""
    scaled = {name for name, tensor in tensors.items() if tensor.dtype == torch.int8}
    paired = dict(tensors)
    for name in sorted(scaled):
        largest, rows = paired.pop(name + SCALES, None), tensors[name].shape[:1]
        if largest is None or largest.shape != rows or not largest.dtype.is_floating_point:
            what = f"{path}: {name} is in int8, but {name}{SCALES} is not {list(rows)} numbers in floating point"
            raise ModelError(what, "use a checkpoint in int8 as Kyutai publishes it, or one that is not quantised")
        paired[name] = replace(tensors[name], largest=largest)
    return paired


def holds_int8(checkpoint: Checkpoint) -> bool:
    """Whether temporal layers are stored in int8."""
    return any(name.startswith("transformer.") and tensor.largest for name, tensor in checkpoint.items())


def shard_paths(index: Path) -> list[Path]:
    """The files that an index of shards names, sorted; each lies beside it."""
    paths = [index.parent / name for name in shard_names(index)]
    for path in paths:
        if not path.is_file():
            raise ModelError(f"{index}: the shard {path.name} is missing", "put all shards beside the index")
    return paths


def _open_safetensors(path: Path) -> Checkpoint:
    try:
        file = safe_open(path, framework="pt")
        return {name: _lazy(path, file, name) for name in file.keys()}  # type: ignore[no-untyped-call]  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a whole safetensors file ({error})", DAMAGED) from error


def _lazy(path: Path, file: Any, name: str) -> StoredTensor:
    view = file.get_slice(name)

    def read(rows: int | None) -> Tensor:
        try:
            tensor: Tensor = file.get_tensor(name) if rows is None else view[:rows]
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path}: {name} can't be read ({error})", DAMAGED) from error
        return tensor

    return StoredTensor(tuple(view.get_shape()), STORED_AS.get(view.get_dtype(), torch.float32), read)


STORED_AS = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I8": torch.int8}


def _open_pickled(path: Path) -> Checkpoint:
    """A dictionary of tensors saved by torch, perhaps under "model" or "fsdp_best_state"."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{path}: not a checkpoint of plain tensors ({first})", DAMAGED) from error
    if isinstance(content, dict):
        content = next((content[key] for key in ("fsdp_best_state", "model") if key in content), content)
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ModelError(f"{path}: holds no dictionary of tensors", "use the checkpoint as it was published")
    return {
        name: StoredTensor(tuple(value.shape), value.dtype, lambda rows, value=value: value[:rows])  # type: ignore[misc]
        for name, value in content.items()
    }
