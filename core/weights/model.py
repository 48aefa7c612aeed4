"""A model ready to run: its files located in a directory or on the hub, then loaded."""

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from personaplex.core.config import PERSONAPLEX_7B, ModelConfig
from personaplex.core.errors import ModelError
from personaplex.core.lm.model import LM
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.precision import settle
from personaplex.core.weights import hub
from personaplex.core.weights.checkpoint import shard_paths
from personaplex.core.weights.filling import depth_steps, load_lm, load_mimi, with_depth_steps
from personaplex.core.weights.published import FILES, VOICES, folder_config, is_directory, lm_file


@dataclass(frozen=True)
class Overrides:
    """Files given one by one in place of the model's own."""

    lm: Path | None = None
    mimi: Path | None = None
    tokenizer: Path | None = None


@dataclass(frozen=True)
class ModelFiles:
    """Where a model's files lie. `voices` is its archive or folder of voices, if one is at hand."""

    name: str
    revision: str
    config: ModelConfig
    lm: Path
    mimi: Path
    tokenizer: Path
    voices: Path | None


@dataclass(frozen=True)
class Model:
    """The modules of a model, and what identifies its weights."""

    name: str
    revision: str
    weights_sha256: str
    config: ModelConfig
    lm: LM
    mimi: Mimi
    tokenizer: Tokenizer

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.lm.device


def locate(name: str, revision: str | None = None, overrides: Overrides | None = None) -> ModelFiles:
    """The files of a model directory or a hub repository (downloaded if need be), some of them overridden.

    Raises ModelError when there is no such model or a file can't be had.
    """
    given = overrides or Overrides()
    files = _in_directory(Path(name)) if is_directory(name, revision) else _on_hub(name, revision, given)
    files = replace(
        files, lm=given.lm or files.lm, mimi=given.mimi or files.mimi, tokenizer=given.tokenizer or files.tokenizer
    )
    if files.config.files == FILES:
        lm = with_depth_steps(files.config.lm, depth_steps(files.lm))
        files = replace(files, config=replace(files.config, lm=lm))
    return files


def _in_directory(folder: Path) -> ModelFiles:
    config = folder_config(folder)
    paths = lm_file(folder, config), folder / config.files.mimi, folder / config.files.tokenizer
    voices = next((path for path in (folder / "voices", folder / VOICES) if path.exists()), None)
    return ModelFiles(folder.resolve().name, "", config, *paths, voices)


def _on_hub(name: str, revision: str | None, given: Overrides) -> ModelFiles:
    mimi = given.mimi or hub.fetch(name, FILES.mimi, revision)
    tokenizer = given.tokenizer or hub.fetch(name, FILES.tokenizer, revision)
    lm = given.lm or hub.fetch_weights(name, revision)[0]
    commit = next((hub.revision_of(path) for path in (mimi, tokenizer, lm) if _is_cached(path)), revision or "")
    return ModelFiles(name, commit, PERSONAPLEX_7B, lm, mimi, tokenizer, None)


def _is_cached(path: Path) -> bool:
    return "snapshots" in path.parts


def load(
    files: ModelFiles,
    device: torch.device,
    dtype: torch.dtype | None = None,
    digest: str | None = None,
    int8: bool = False,
) -> Model:
    """Load a model's weights; `dtype` None keeps the type they are stored in. Raises ModelError.

    `digest` is `files_sha256(files)` where that is known already. `int8` quantises the temporal layers.
    """
    settle()
    tokenizer = Tokenizer(files.tokenizer)
    if tokenizer.vocab_size != files.config.lm.text_vocab:
        sizes = f"{tokenizer.vocab_size} pieces, the model {files.config.lm.text_vocab} text tokens"
        raise ModelError(f"{files.tokenizer}: has {sizes}", "use the tokenizer that came with the model")
    lm = load_lm(files.lm, files.config.lm, device, dtype, int8)
    mimi = load_mimi(files.mimi, files.config.mimi, device)
    digest = digest or files_sha256(files)
    return Model(files.name, files.revision, digest, files.config, lm, mimi, tokenizer)


def files_sha256(files: ModelFiles) -> str:
    """One SHA-256 over those of the weight files, in order; a blob of the hub's cache is already named by its own."""
    digest = hashlib.sha256()
    lm = shard_paths(files.lm) if files.lm.name.endswith(".index.json") else [files.lm]
    for path in (*lm, files.mimi):
        blob = path.resolve().name
        if not re.fullmatch(r"[0-9a-f]{64}", blob):
            with path.open("rb") as file:
                blob = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{blob}\n".encode())
    return digest.hexdigest()
