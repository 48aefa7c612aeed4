"""The published models: their names on the hub and terms, their files, and a folder that holds them. No torch."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.config import PERSONAPLEX_7B, ModelConfig, read_config
from personaplex.core.errors import ModelError, UsageError

HUB_MODEL = "nvidia/personaplex-7b-v1"
FILES = PERSONAPLEX_7B.files
INDEX = f"{FILES.lm}.index.json"
Q8 = "model.q8.safetensors"  # as Kyutai names one that is stored in int8
VOICES = "voices.tgz"
CONFIG = "config.json"


@dataclass(frozen=True)
class Terms:
    """What is known of a repository on the hub without asking it, from its page.

    `licence` names that of the weights. A `gated` one gives its files to accounts that have accepted its licence;
    `voices` tells whether an archive of voices is among them.
    """

    licence: str
    is_commercial: bool = True
    gated: bool = False
    voices: bool = False


RL_MODEL = "kyutai/personaplex-rl-seamless"
KYUTAI = ("kyutai/moshiko-pytorch-bf16", "kyutai/moshika-pytorch-bf16")
TERMS = {
    HUB_MODEL: Terms("NVIDIA Open Model License", gated=True, voices=True),
    RL_MODEL: Terms("CC BY-NC 4.0 and NVIDIA Open Model License", is_commercial=False, gated=True, voices=True),
    **dict.fromkeys(KYUTAI, Terms("CC BY 4.0")),
}


def has_voices(repo: str | None) -> bool:
    """Whether a repository is known to hold an archive of voices."""
    return repo in TERMS and TERMS[repo].voices


def warning_of_terms(repo: str) -> str | None:
    """What to tell whoever uses a model of the hub for their business; None where nothing is known to forbid it."""
    if repo not in TERMS or TERMS[repo].is_commercial:
        return None
    return f"{repo}: its licence ({TERMS[repo].licence}) does not allow commercial use"


def is_directory(name: str, revision: str | None) -> bool:
    """Whether a model's name is that of a directory, not a repository's id.

    Raises UsageError for the revision of a directory, ModelError for a name that is neither.
    """
    if os.path.isdir(name):
        if revision is not None:
            raise UsageError(f"--revision {revision}: a model directory has no revisions", "leave it out")
        return True
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        mend = f"give a directory, a hub id such as {HUB_MODEL}, or the name of a packaged model: nano or tiny"
        raise ModelError(f'there is no model "{name}"', mend)
    return False


def folder_config(folder: Path) -> ModelConfig:
    """The shapes of a folder's model, by its `config.json` unless it is a copy of the published one, which has none.

    Raises ModelError.
    """
    return PERSONAPLEX_7B if (folder / FILES.mimi).is_file() else read_config(folder / CONFIG)


def lm_file(folder: Path, config: ModelConfig) -> Path:
    """A folder's language model: its checkpoint, or of the published model the index of its shards, or `Q8`."""
    whole = folder / config.files.lm
    if config.files == FILES and not whole.is_file():
        return next((folder / name for name in (INDEX, Q8) if (folder / name).is_file()), whole)
    return whole
