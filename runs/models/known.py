"""Shapes of a model by name, without loading or downloading it."""

import os
from dataclasses import dataclass, replace

import torch

from personaplex.core.config import PERSONAPLEX_7B, ModelConfig
from personaplex.core.errors import ModelError
from personaplex.core.machine.memory import ModelSize, model_size
from personaplex.core.weights.checkpoint import holds_int8, open_checkpoint
from personaplex.core.weights.filling import stored_dtype, with_depth_steps
from personaplex.core.weights.model import locate
from personaplex.core.weights.published import HUB_MODEL, KYUTAI, RL_MODEL
from personaplex.runs.choices import Dtype, Quantize
from personaplex.samples import tiny
from personaplex.samples.catalog import model_names, placed

CATALOGUE = (*model_names(), HUB_MODEL, RL_MODEL, *KYUTAI)
"""The models that are known by name."""


@dataclass(frozen=True)
class KnownModel:
    """A model's name, its shapes and the type that its language model is stored in, its temporal layers in `int8`."""

    name: str
    config: ModelConfig
    dtype: torch.dtype
    int8: bool = False

    def width(self, dtype: Dtype) -> int:
        """Bytes of a value when the model runs in `dtype`."""
        chosen: torch.dtype = self.dtype if dtype is Dtype.auto else getattr(torch, dtype)
        return chosen.itemsize

    def size(self, slots: int, positions: int, dtype: Dtype, quantize: Quantize) -> ModelSize:
        """What it takes when it runs so."""
        return model_size(self.config, slots, positions, self.width(dtype), self.int8 or quantize is Quantize.int8)


def known_model(name: str | None) -> KnownModel:
    """A packaged or published model, or a directory; raises ModelError for any other."""
    wanted = placed(name or HUB_MODEL)
    if wanted == tiny.NAME:
        return KnownModel(wanted, tiny.CONFIG, torch.float32)
    if wanted in (HUB_MODEL, RL_MODEL):
        return KnownModel(wanted, PERSONAPLEX_7B, torch.bfloat16)
    if wanted in KYUTAI:
        eight_steps = replace(PERSONAPLEX_7B, lm=with_depth_steps(PERSONAPLEX_7B.lm, 8))
        return KnownModel(wanted, eight_steps, torch.bfloat16)
    if os.path.isdir(wanted):
        files = locate(wanted)
        checkpoint = open_checkpoint(files.lm)
        return KnownModel(files.name, files.config, stored_dtype(checkpoint), holds_int8(checkpoint))
    raise ModelError(f'there is no model "{wanted}"', f"give a directory, or one of {', '.join(CATALOGUE)}")
