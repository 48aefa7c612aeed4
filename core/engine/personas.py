"""Prompts run once: calls that share voice and text share one prefill."""

from collections import OrderedDict

from personaplex.core.engine.job import Prompt
from personaplex.core.engine.session import Persona, prefill
from personaplex.core.weights.model import Model


class Personas:
    """Prefilled prompts of a model, the least recently used of more than `most` dropped."""

    def __init__(self, model: Model, most: int = 16) -> None:
        self._model = model
        self._most = most
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], Persona] = OrderedDict()

    def get(self, prompt: Prompt) -> Persona:
        """The persona of a prompt, from memory or prefilled now; raises VoiceError."""
        if prompt.key not in self._kept:
            model = self._model
            self._kept[prompt.key] = prefill(model.lm, model.config, prompt.voice.voice, prompt.text_tokens)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(prompt.key)
        return self._kept[prompt.key]
