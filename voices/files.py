"""Stored voices: what a `.pt` or `.safetensors` voice holds, read without ever running what is in it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex.core.config import STREAMS
from personaplex.core.errors import VoiceError

if TYPE_CHECKING:
    import torch

_KEYS = ("embeddings", "cache")
_COLUMNS = 4
_MEND = "use a voice published with the model, or make one with `personaplex voices create`"


@dataclass(frozen=True)
class StoredVoice:
    """A voice of V frames, as the temporal transformer takes it.

    embeddings: [V-1, dim], the inputs of calls 1 … V-1, in the type they are stored in.
    columns: int64 [17, 4], the last token columns: column p stands at index p mod 4.
    sha256: of the file.
    """

    embeddings: "torch.Tensor"
    columns: "torch.Tensor"
    sha256: str


def read_voice(path: Path, dim: int | None = None) -> StoredVoice:
    """The voice in `path`, for a temporal transformer of width `dim`, or for any if None.

    Raises `VoiceError` for a file that can't be read, is no voice, or was made for another width.
    """
    read = _read_safetensors if path.suffix.lower() == ".safetensors" else _read_pt
    try:
        with path.open("rb") as file:
            embeddings, columns = _checked(path, read(path), dim)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise VoiceError(f"{path}: {error.strerror or error}") from error
    return StoredVoice(embeddings, columns, digest)


def read_metadata(path: Path) -> dict[str, str]:
    """What a `.safetensors` voice says of its making; {} for a `.pt`, which can say nothing. Raises `VoiceError`."""
    from safetensors import SafetensorError, safe_open

    if path.suffix.lower() != ".safetensors":
        return {}
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise VoiceError(f"{path}: not a safetensors file ({error})", _MEND) from error


def _read_pt(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that isn't a pickle of tensors makes the unpickler raise anything
        raise VoiceError(
            f"{path}: not a voice: it is no PyTorch file, or holds more than tensors and could run code", _MEND
        ) from error


def _read_safetensors(path: Path) -> dict[str, "torch.Tensor"]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in _KEYS if key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise VoiceError(f"{path}: not a safetensors file ({error})", _MEND) from error


def _checked(path: Path, stored: Any, dim: int | None) -> tuple["torch.Tensor", "torch.Tensor"]:
    """`stored`'s embeddings as [V-1, dim] and its cache as int64 [17, 4]."""
    import torch

    for key in _KEYS:
        if not isinstance(stored, dict) or not isinstance(stored.get(key), torch.Tensor):
            raise VoiceError(f"{path}: not a voice: it holds no tensor {key!r}", _MEND)
    embeddings, cache = (stored[key].detach() for key in _KEYS)
    if embeddings.ndim != 4 or embeddings.shape[1:3] != (1, 1) or not len(embeddings):
        raise VoiceError(f"{path}: embeddings are {list(embeddings.shape)}, not [frames - 1, 1, 1, dim]", _MEND)
    if dim is not None and embeddings.shape[3] != dim:
        raise VoiceError(
            f"{path}: made for a model of dim {embeddings.shape[3]}; this one has {dim}",
            "use a voice of this model, or make one from a WAV with `personaplex voices create`",
        )
    if cache.shape != (1, STREAMS, _COLUMNS):
        raise VoiceError(f"{path}: cache is {list(cache.shape)}, not {[1, STREAMS, _COLUMNS]}", _MEND)
    if not embeddings.is_floating_point() or cache.is_floating_point() or cache.is_complex():
        raise VoiceError(
            f"{path}: embeddings are {embeddings.dtype}, cache is {cache.dtype}: not floats, integers", _MEND
        )
    if not embeddings.isfinite().all():
        raise VoiceError(
            f"{path}: embeddings hold NaN or infinite values", "the file is damaged: fetch or make it anew"
        )
    return embeddings[:, 0, 0], cache[0].long()
