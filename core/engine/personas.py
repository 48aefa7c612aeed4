"""Prompts run once: calls that share voice and text share one prefill."""

import math
from collections import OrderedDict

from personaplex.core.engine.job import Prompt
from personaplex.core.engine.session import Persona, prefill
from personaplex.core.weights.model import Model

MOST = 16
GPU_BYTES = 2**30  # a prompt of the 7B takes about 0.15 GB, and is made anew in some 0.05 s


class Personas:
    """Prefilled prompts of a model. The newest is kept; the least recently used go, of more than `MOST`.

    On CUDA, where memory is dear and a prompt quickly made again, of more than `GPU_BYTES` too.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._most_bytes = GPU_BYTES if model.device.type == "cuda" else math.inf
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], Persona] = OrderedDict()

    def get(self, prompt: Prompt) -> Persona:
        """The persona of a prompt, from memory or prefilled now; raises VoiceError."""
        if prompt.key not in self._kept:
            model = self._model
            self._kept[prompt.key] = prefill(model.lm, model.config, prompt.voice.voice, prompt.text_tokens)
            while len(self._kept) > 1 and (len(self._kept) > MOST or self._bytes() > self._most_bytes):
                self._kept.popitem(last=False)
        self._kept.move_to_end(prompt.key)
        return self._kept[prompt.key]

    def _bytes(self) -> int:
        return sum(2 * persona.state.cache.keys.nbytes for persona in self._kept.values())
