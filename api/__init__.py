"""PersonaPlex from Python: load a model once, answer one call or many.

Everything that other programs may rely on is exported here, and its names stay. Every error is a `PersonaplexError`
with the words that the command line prints: `what` is wrong, and how to `mend` it.
"""

# ruff: noqa: E402
from personaplex.core.machine.spinning import spin_less

spin_less()  # before torch is imported

from personaplex.api.answer import Answer, Failure
from personaplex.api.calls import Call, Settings
from personaplex.api.model import Model, load_model
from personaplex.core.answers.transcript import Word
from personaplex.core.errors import InputError, ModelError, PersonaplexError, StorageError, UsageError, VoiceError
from personaplex.core.sampling.draw import Sampling

__all__ = [
    "Answer",
    "Call",
    "Failure",
    "InputError",
    "Model",
    "ModelError",
    "PersonaplexError",
    "Sampling",
    "Settings",
    "StorageError",
    "UsageError",
    "VoiceError",
    "Word",
    "load_model",
]
