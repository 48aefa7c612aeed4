"""Writing safetensors files that are the same bytes on every run."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from personaplex.core.files import replacing


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write named tensors and metadata to `path`, whole or not at all; raises InputError."""
    with replacing(path) as part:
        part.write_bytes(encode_tensors(tensors, metadata))


def encode_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Named tensors and metadata as a file."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    return _with_sorted_header(save(contiguous, dict(metadata)))


def _with_sorted_header(file: bytes) -> bytes:
    """The file with its header's keys in order: the library writes those of the metadata in another one every time."""
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # so that the tensors' data stays aligned
    return len(header).to_bytes(8, "little") + header + file[end:]
