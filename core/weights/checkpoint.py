"""Checkpoint files as one table of tensors, read one at a time: `.safetensors`, shards with an index, or `.pt`."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from personaplex.core.errors import ModelError
from personaplex.core.weights.shards import shard_names

DAMAGED = "the file is damaged or cut short: fetch it again"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: its shape and type, and `read(rows)`, which loads its leading rows, or all for None."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[int | None], Tensor]


Checkpoint = Mapping[str, StoredTensor]


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of `path`, by name; nothing is loaded yet and nothing in the file is run.

    Raises ModelError for a missing, damaged or foreign file.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint file", "check --model, --moshi-weight and --mimi-weight")
    if path.name.endswith(".index.json"):
        return {name: tensor for part in shard_paths(path) for name, tensor in _open_safetensors(part).items()}
    return _open_pickled(path) if path.suffix in {".pt", ".pth", ".bin"} else _open_safetensors(path)


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

    return StoredTensor(tuple(view.get_shape()), _DTYPES.get(view.get_dtype(), torch.float32), read)


_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


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
