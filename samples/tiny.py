"""The packaged model `tiny`: the real architecture with small shapes and weights made from a seed.

It speaks noise. It is there so that every pipeline runs, and is tested, without a download.
"""

import hashlib
import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from personaplex.core.config import (
    PAD,
    PERSONAPLEX_7B,
    DepthConfig,
    FilesConfig,
    LMConfig,
    MimiConfig,
    MimiTransformerConfig,
    ModelConfig,
)
from personaplex.core.lm.model import LM
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.precision import settle
from personaplex.core.weights.model import Model
from personaplex.samples.catalog import model_folder

NAME = "tiny"
SEED = 20_261_201
LOUDNESS = 0.1  # of the last convolution, so that the noise stays well inside full scale

PAD_GAIN = 6
BYTES = slice(4, 260)  # the tokenizer's byte pieces

CONFIG = ModelConfig(
    model_type="personaplex",
    lm=LMConfig(
        dim=128,
        num_heads=4,
        num_layers=3,
        feedforward=352,
        context=3000,
        text_vocab=512,
        audio_vocab=2048,
        streams=PERSONAPLEX_7B.lm.streams,
        delays=PERSONAPLEX_7B.lm.delays,
        depth=DepthConfig(dim=64, num_heads=2, num_layers=2, feedforward=176, codebooks=8),
    ),
    mimi=MimiConfig(
        filters=8,
        dim=64,
        ratios=PERSONAPLEX_7B.mimi.ratios,
        codebook_dim=32,
        codebook_size=2048,
        codebooks=8,
        transformer=MimiTransformerConfig(num_heads=2, num_layers=2, feedforward=128, context=250),
    ),
    silence_codes=PERSONAPLEX_7B.silence_codes,
    sine_codes=PERSONAPLEX_7B.sine_codes,
    files=FilesConfig(lm="", mimi="", tokenizer="tokenizer.model"),
)


def load(device: torch.device, dtype: torch.dtype | None = None) -> Model:
    """The model, its weights made in memory; `dtype` None is float32."""
    settle()
    digest = hashlib.sha256()
    with torch.device("meta"):
        lm, mimi = LM(CONFIG.lm), Mimi(CONFIG.mimi)
    for module in (lm, mimi):
        kept = torch.float32 if module is mimi or dtype is None else dtype
        values = {name: _values(name, tuple(p.shape)) for name, p in module.named_parameters()}
        for value in values.values():
            digest.update(value.numpy().tobytes())
        placed = {name: value.to(device, kept) for name, value in values.items()}
        module.load_state_dict(placed, strict=True, assign=True)
        module.requires_grad_(False).eval()
    tokenizer = Tokenizer(model_folder(NAME) / CONFIG.files.tokenizer)
    return Model(NAME, f"seed-{SEED}", digest.hexdigest(), CONFIG, lm, mimi, tokenizer)


def _values(name: str, shape: tuple[int, ...]) -> Tensor:
    """A parameter's float32 values, which follow from the seed and its name alone, on every platform."""
    key = hashlib.sha256(f"{SEED}:{name}".encode()).digest()[:16]
    words = np.random.Philox(key=np.frombuffer(key, dtype="<u8")).random_raw(math.prod(shape))
    uniform = ((words >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0).astype(np.float32)
    values = torch.from_numpy(_scaled(name, shape, uniform)).reshape(shape)
    if name == "text_linear":  # pauses between words, and no half characters
        values[PAD] *= PAD_GAIN
        values[BYTES] = 0
    return values


def _scaled(name: str, shape: tuple[int, ...], uniform: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Uniform numbers in [-1, 1) scaled by what the parameter is, so that activations keep their size."""
    last = name.rsplit(".", 1)[-1]
    if last == "alpha" or (".norm" in name and last == "weight"):
        return 1 + np.float32(0.1) * uniform
    if last == "cluster_usage":
        return 1 + np.float32(0.5) * uniform
    if last in {"scale1", "scale2"}:
        return np.float32(0.5) + np.float32(0.25) * uniform
    if last == "bias":
        return np.float32(0.01) * uniform
    if last in {"emb", "text_emb", "embedding_sum"}:
        return uniform
    gain = LOUDNESS if name == "decoder.last.weight" else 1.0
    return np.float32(gain * math.sqrt(3 / _fan_in(name, shape))) * uniform


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    """How many inputs add up in an output."""
    if ".up." in name or name.startswith("upsample"):
        return 2 * (shape[0] if shape[1] > 1 else 1)  # a transposed convolution: two taps overlap
    stacked = name.startswith("depth.")
    return shape[-1] if stacked else math.prod(shape[1:])
