"""Shapes of a model by name, without loading or downloading it."""

from pathlib import Path

from personaplex.core.config import PERSONAPLEX_7B, ModelConfig
from personaplex.core.errors import ModelError
from personaplex.core.model import HUB_MODEL, locate
from personaplex.core.weights import with_depth_steps
from personaplex.samples import tiny

KYUTAI = ("kyutai/moshiko-pytorch-bf16", "kyutai/moshika-pytorch-bf16")


def known_config(name: str | None) -> tuple[str, ModelConfig]:
    """A model's name and shapes; raises ModelError for one that is neither known nor a directory."""
    from dataclasses import replace

    wanted = name or HUB_MODEL
    if wanted == tiny.NAME:
        return wanted, tiny.CONFIG
    if wanted == HUB_MODEL:
        return wanted, PERSONAPLEX_7B
    if wanted in KYUTAI:
        return wanted, replace(PERSONAPLEX_7B, lm=with_depth_steps(PERSONAPLEX_7B.lm, 8))
    if Path(wanted).is_dir():
        files = locate(wanted)
        return files.name, files.config
    known = ", ".join((tiny.NAME, HUB_MODEL, *KYUTAI))
    raise ModelError(f'there is no model "{wanted}"', f"give a directory, or one of {known}")
