"""When a conversation is over before its time: both sides fall silent, or have said goodbye."""

import re
from dataclasses import dataclass
from typing import Literal

from personaplex.core.lm.tokenizer import Tokenizer

Reason = Literal["length", "silence", "goodbye"]

GOODBYE = re.compile(
    r"\b(good-?bye|bye|have a (good|great|nice|lovely|wonderful) (day|evening|night|weekend|one)|take care)\b",
    re.IGNORECASE,
)
_TAIL = 16  # tokens of text in which goodbye words are looked for: they may come in small pieces


@dataclass(frozen=True)
class Ending:
    """After how many frames without a word a conversation ends; None never does.

    `silence` counts at any time, `goodbye` once a side has said a word of `GOODBYE`.
    """

    silence: int | None
    goodbye: int | None


class EndWatch:
    """Follows a conversation's text, a frame at a time, from frame `start` on."""

    def __init__(self, ending: Ending, tokenizer: Tokenizer, start: int) -> None:
        self._ending = ending
        self._tokenizer = tokenizer
        self._quiet = -start
        self._said: tuple[list[int], list[int]] = ([], [])
        self._parting = False

    def take(self, text: tuple[int, int]) -> Reason | None:
        """Take both sides' text tokens of a frame; tells why the conversation is over, if it is."""
        self._quiet += 1
        for token, said in zip(text, self._said, strict=True):
            if self._tokenizer.is_text(token):
                self._quiet = min(self._quiet, 0)
                said.append(token)
                del said[:-_TAIL]
                self._parting = self._parting or GOODBYE.search(self._tokenizer.decode(said)) is not None
        if self._parting and self._ending.goodbye is not None and self._quiet >= self._ending.goodbye:
            return "goodbye"
        if self._ending.silence is not None and self._quiet >= self._ending.silence:
            return "silence"
        return None
