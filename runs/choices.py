"""Choices that shape a run, by name. Cheap to import: the command line's help needs them."""

from enum import StrEnum

DEFAULT_SEED = 42_424_242


class Dtype(StrEnum):
    """The type of the language model's weights and activations."""

    auto = "auto"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"


class Quantize(StrEnum):
    """What the temporal layers' weights are held in: the model's own type, or int8 unless they are stored so."""

    none = "none"
    int8 = "int8"


class Alignment(StrEnum):
    """Which frame of the agent stands at the output's start."""

    reference = "reference"
    model = "model"


class Pace(StrEnum):
    """How the caller's frames arrive."""

    none = "none"
    realtime = "realtime"


class LongAudio(StrEnum):
    """What to do with a call that is longer than the context."""

    warn = "warn"
    error = "error"


class Existing(StrEnum):
    """What to do with an item whose outputs are there."""

    skip = "skip"
    overwrite = "overwrite"
    error = "error"
