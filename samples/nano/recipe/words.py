"""Where words start in what flite has spoken, and text as a stream of pieces, one a frame."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache

from personaplex.core.config import EPAD, PAD
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe.render import run

PAUSE = "pau"


def word_starts(text: str, phones: Sequence[tuple[str, float]]) -> list[float]:
    """The second in which each word of `text` starts, from the phones of the whole and their ends in seconds.

    Words are looked up one by one, and their phones found again in those of the whole, where some are said otherwise.
    """
    spoken, owners = [], []
    for number, word in enumerate(text.split()):
        own = [phone for phone in _phones(word) if phone != PAUSE]
        spoken += own
        owners += [number] * len(own)
    begins = [0.0, *(end for _, end in phones[:-1])]
    heard = [(phone, begin) for (phone, _), begin in zip(phones, begins, strict=True) if phone != PAUSE]
    starts: dict[int, float] = {}
    for block in SequenceMatcher(None, spoken, [phone for phone, _ in heard], autojunk=False).get_opcodes():
        _, first, last, at, end = block
        for index in range(first, last):
            place = min(at + index - first, max(at, end - 1), len(heard) - 1)
            starts.setdefault(owners[index], heard[place][1])
    return [starts[number] for number in range(len(text.split()))]


@cache
def _phones(word: str) -> tuple[str, ...]:
    return tuple(run("flite", "-ps", "-t", word, "none").split())


def stream(text: str, frames: Sequence[int], length: int, tokenizer: Tokenizer) -> list[int]:
    """`length` tokens with the pieces of each word from the frame on in which it starts, EPAD before, PAD elsewhere.

    A word that starts while the pieces of the one before are still coming waits for them.
    """
    tokens = [PAD] * length
    free = 0
    for word, frame in zip(text.split(), frames, strict=True):
        at = max(free, frame)
        if 0 < at <= length and tokens[at - 1] == PAD:
            tokens[at - 1] = EPAD
        for piece in tokenizer.encode(word):
            if at < length:
                tokens[at] = piece
            at += 1
        free = at
    return tokens
