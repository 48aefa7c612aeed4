"""A model directory with the large layers in int8, written tensor by tensor from a model's own files."""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from personaplex.core.config import FilesConfig, ModelConfig, QuantizedConfig
from personaplex.core.errors import InputError, ModelError, UsageError
from personaplex.core.files import placing_folder
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.weights.checkpoint import SCALES, STORED_AS, Checkpoint, StoredTensor, open_checkpoint
from personaplex.core.weights.filling import in_int8, misfits
from personaplex.core.weights.layout import lm_layout
from personaplex.core.weights.model import ModelFiles, files_sha256
from personaplex.core.weights.published import CONFIG, VOICES
from personaplex.core.weights.zeros import refuse_zeros

_LM, _MIMI, _TOKENIZER, _VOICES = "model.safetensors", "mimi", "tokenizer.model", "voices"
_GIB = 2**30

Told = Callable[[int, int], None]
"""How many tensors are written, of how many."""


@dataclass(frozen=True)
class Piece:
    """A tensor of the new file: where its content comes from, and what it is there."""

    source: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """What it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def quantize(files: ModelFiles, output: Path, told: Told) -> int:
    """Write the model of `files` to the folder `output`, whole or not at all; returns the bytes of its language model.

    Raises UsageError for a folder that is not empty, ModelError for a model that can't be quantised, InputError where
    it can't be written.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output}: is there already, and not an empty folder", "name a new one, or empty it")
    checkpoint = open_checkpoint(files.lm)
    _check(files, checkpoint)
    pieces = _pieces(checkpoint, files)
    size = sum(piece.bytes for piece in pieces.values())
    _check_space(output, size + sum(_size(path) for path in (files.mimi, files.tokenizer, files.voices) if path))
    config = _config(files)
    with placing_folder(output) as folder:
        with (folder / _LM).open("wb") as file:
            _write_lm(file, checkpoint, pieces, files.lm, told)
            os.fsync(file.fileno())
        shutil.copyfile(files.mimi, folder / config.files.mimi)
        shutil.copyfile(files.tokenizer, folder / config.files.tokenizer)
        if files.voices is not None and files.voices.is_dir():
            shutil.copytree(files.voices, folder / _VOICES)
        elif files.voices is not None:
            shutil.copyfile(files.voices, folder / VOICES)
        document = json.dumps(asdict(config), indent=2)
        (folder / CONFIG).write_text(document + "\n", encoding="utf-8")
    return size


def _check(files: ModelFiles, checkpoint: Checkpoint) -> None:
    if any(tensor.largest for tensor in checkpoint.values()):
        raise ModelError(
            f"{files.lm}: is in int8 already", "use it as it is, or quantise the model that it was made of"
        )
    problems = misfits(lm_layout(files.config.lm), checkpoint)
    if problems:
        raise ModelError(f"{files.lm}: {problems}", "is it the checkpoint of this model?")


def _check_space(output: Path, needed: int) -> None:
    above = next(path for path in output.absolute().parents if path.exists())
    free = shutil.disk_usage(above).free
    if free < needed:
        what = f"{output}: cannot write: it takes {needed / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB are free"
        raise InputError(what, "free some space, or write to another disk")


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in (path.rglob("*") if path.is_dir() else [path]) if part.is_file())


def _pieces(checkpoint: Checkpoint, files: ModelFiles) -> dict[str, Piece]:
    """The tensors of the new file by name, the widest types first, so that each lies at a multiple of its width."""
    layout = lm_layout(files.config.lm)
    pieces = {}
    for name, tensor in checkpoint.items():
        if layout[name].is_quantised:
            pieces[name] = Piece(name, tensor.shape, torch.int8)
            pieces[name + SCALES] = Piece(name, tensor.shape[:1], torch.float32)
        else:
            pieces[name] = Piece(name, tensor.shape, tensor.dtype)
    return dict(sorted(pieces.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))


def _write_lm(file: BinaryIO, checkpoint: Checkpoint, pieces: dict[str, Piece], path: Path, told: Told) -> None:
    """A safetensors file. Each tensor's place is known beforehand, so they are written in the order of their source."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    places, start = dict[str, int](), 0
    names = {dtype: name for name, dtype in STORED_AS.items()}
    for name, piece in pieces.items():
        places[name], end = start, start + piece.bytes
        header[name] = {"dtype": names[piece.dtype], "shape": piece.shape, "data_offsets": (start, end)}
        start = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    file.write(len(encoded).to_bytes(8, "little") + encoded)
    begin = file.tell()
    for number, (name, tensor) in enumerate(checkpoint.items(), 1):
        for written, values in _values(name, tensor, name + SCALES in pieces, path):
            file.seek(begin + places[written])
            file.write(values.contiguous().flatten().view(torch.uint8).numpy().data)
        told(number, len(checkpoint))


def _values(name: str, tensor: StoredTensor, quantised: bool, path: Path) -> Iterator[tuple[str, Tensor]]:
    """What becomes of a tensor: itself, or int8 and the largest value of each row."""
    if quantised:
        weight, largest = in_int8(name, tensor, path)
        yield name, weight
        yield name + SCALES, largest
    else:
        values = tensor.read(None)
        refuse_zeros(name, values, path)
        yield name, values


def _config(files: ModelFiles) -> ModelConfig:
    """The new model's, which says what it was made of."""
    source = QuantizedConfig("int8", files.name, files.revision, files_sha256(files), Tokenizer(files.tokenizer).sha256)
    named = FilesConfig(_LM, _MIMI + files.mimi.suffix, _TOKENIZER)
    return replace(files.config, files=named, quantized=source)
