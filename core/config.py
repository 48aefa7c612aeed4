"""The shapes of the world: frozen dataclasses, read strictly from a model directory's config.json.

The published checkpoint's own config.json says nothing about shapes, so its architecture is the constant
`PERSONAPLEX_7B` (arXiv 2602.06053, arXiv 2410.00037).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from personaplex.core.errors import ModelError

SAMPLE_RATE = 24_000
FRAME_SAMPLES = 1_920
FRAME_RATE = SAMPLE_RATE / FRAME_SAMPLES
CODEBOOKS = 8
STREAMS = 1 + 2 * CODEBOOKS
AGENT = slice(1, 1 + CODEBOOKS)
USER = slice(1 + CODEBOOKS, STREAMS)
PAD = 3
EPAD = 0
DELAYS = (0, *(0, 1, 1, 1, 1, 1, 1, 1) * 2)

_STRICT = ConfigDict(extra="forbid", strict=True)


def seconds(frame: int) -> float:
    """Where a frame starts, in seconds: a multiple of 0.08."""
    return round(frame / FRAME_RATE, 2)


@dataclass(frozen=True)
class DepthConfig:
    """The depth transformer; `codebooks` is the number of steps its checkpoint holds (8 or 16)."""

    __pydantic_config__ = _STRICT

    dim: int
    num_heads: int
    num_layers: int
    feedforward: int
    codebooks: int


@dataclass(frozen=True)
class LMConfig:
    """The temporal transformer, its vocabularies and streams."""

    __pydantic_config__ = _STRICT

    dim: int
    num_heads: int
    num_layers: int
    feedforward: int
    context: int
    text_vocab: int
    audio_vocab: int
    streams: int
    delays: list[int]
    depth: DepthConfig

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.dim // self.num_heads

    @property
    def window(self) -> int:
        """Keys a query sees, its own included: the reference's ring of `context` slots loses one."""
        return self.context - 1


@dataclass(frozen=True)
class MimiTransformerConfig:
    """One of the codec's two transformers, over latents at 25 Hz."""

    __pydantic_config__ = _STRICT

    num_heads: int
    num_layers: int
    feedforward: int
    context: int


@dataclass(frozen=True)
class MimiConfig:
    """The Mimi codec. `codebooks` counts the used ones: a checkpoint may store more."""

    __pydantic_config__ = _STRICT

    filters: int
    dim: int
    ratios: list[int]
    codebook_dim: int
    codebook_size: int
    codebooks: int
    transformer: MimiTransformerConfig


@dataclass(frozen=True)
class FilesConfig:
    """File names inside a model directory; `lm` may be an index of shards or a `.pt`."""

    __pydantic_config__ = _STRICT

    lm: str
    mimi: str
    tokenizer: str


@dataclass(frozen=True)
class QuantizedConfig:
    """What the large layers are in, and the model that they were made of."""

    __pydantic_config__ = _STRICT

    type: Literal["int8"]
    name: str
    revision: str
    weights_sha256: str
    tokenizer_sha256: str


@dataclass(frozen=True)
class ModelConfig:
    """Everything a model directory's config.json says."""

    __pydantic_config__ = _STRICT

    model_type: str
    lm: LMConfig
    mimi: MimiConfig
    silence_codes: list[int]
    sine_codes: list[int]
    files: FilesConfig
    quantized: QuantizedConfig | None = None

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem:
            raise ValueError(problem)


def _problems(config: ModelConfig) -> Iterator[str]:
    lm, mimi = config.lm, config.mimi
    if config.model_type != "personaplex":
        yield f'model_type is "{config.model_type}", not "personaplex"'
    for name, size in _sizes(asdict(config)):
        if size < 1:
            yield f"{name} is {size}, not 1 or more"
    if lm.text_vocab <= PAD:
        yield f"lm.text_vocab is {lm.text_vocab}, too small to hold the padding token {PAD}"
    if mimi.filters < 2:
        yield f"mimi.filters is {mimi.filters}, too few to be halved"
    if lm.streams != STREAMS or tuple(lm.delays) != DELAYS:
        yield f"streams and delays must be {STREAMS} and {list(DELAYS)}"
    if lm.depth.codebooks not in (CODEBOOKS, 2 * CODEBOOKS):
        yield f"lm.depth.codebooks is {lm.depth.codebooks}, not {CODEBOOKS} or {2 * CODEBOOKS}"
    if mimi.codebooks != CODEBOOKS or mimi.codebook_size != lm.audio_vocab:
        yield f"mimi must use {CODEBOOKS} codebooks of lm.audio_vocab ({lm.audio_vocab}) entries"
    if 2 * math.prod(mimi.ratios) != FRAME_SAMPLES or min(mimi.ratios) < 1:
        yield f"mimi.ratios must be positive, and twice their product a frame's {FRAME_SAMPLES} samples"
    for name, dim, heads in (
        ("lm", lm.dim, lm.num_heads),
        ("lm.depth", lm.depth.dim, lm.depth.num_heads),
        ("mimi", mimi.dim, mimi.transformer.num_heads),
    ):
        if dim % (2 * heads):
            yield f"{name}: {heads} heads do not divide a dim of {dim} into even parts"
    if lm.context < 3 or mimi.transformer.context < 4 or mimi.transformer.context > 10_000:
        yield "a context is out of range"
    for name in ("silence_codes", "sine_codes"):
        codes = getattr(config, name)
        if len(codes) != CODEBOOKS or not all(0 <= code < lm.audio_vocab for code in codes):
            yield f"{name} must be {CODEBOOKS} codes below {lm.audio_vocab}"
    if any(Path(name).name != name for name in asdict(config.files).values()):
        yield "files must be plain names inside the model directory"


def _sizes(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number among the fields, by its dotted name."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _sizes(value, f"{above}{name}.")
        elif isinstance(value, int):
            yield above + name, value


def read_config(path: Path) -> ModelConfig:
    """The `ModelConfig` in the file `path`; a `ModelError` names every unknown, missing or impossible field."""
    try:
        return TypeAdapter(ModelConfig).validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}", "a model directory holds a config.json") from error
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'config'}: {e['msg']}" for e in error.errors())
        raise ModelError(f"{path}: {faults}", "use the config.json that came with the model, unchanged") from error


PERSONAPLEX_7B = ModelConfig(
    model_type="personaplex",
    lm=LMConfig(
        dim=4096,
        num_heads=32,
        num_layers=32,
        feedforward=11_264,
        context=3000,
        text_vocab=32_000,
        audio_vocab=2048,
        streams=STREAMS,
        delays=list(DELAYS),
        depth=DepthConfig(dim=1024, num_heads=16, num_layers=6, feedforward=2816, codebooks=16),
    ),
    mimi=MimiConfig(
        filters=64,
        dim=512,
        ratios=[8, 6, 5, 4],
        codebook_dim=256,
        codebook_size=2048,
        codebooks=CODEBOOKS,
        transformer=MimiTransformerConfig(num_heads=8, num_layers=8, feedforward=2048, context=250),
    ),
    silence_codes=[948, 243, 1178, 546, 1736, 1030, 1978, 2008],
    sine_codes=[430, 1268, 381, 1611, 1095, 1495, 56, 472],
    files=FilesConfig(
        lm="model.safetensors",
        mimi="tokenizer-e351c8d8-checkpoint125.safetensors",
        tokenizer="tokenizer_spm_32k_3.model",
    ),
)
