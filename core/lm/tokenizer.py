"""Text ↔ ids: the model's SentencePiece vocabulary, and which ids of a text stream are text.

In a text stream `PAD` (3) and `EPAD` (0, the end of padding before a word) are not text, nor are control ids such as
1 and 2 (`<s>`, `</s>`); every other id is its piece.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from personaplex.core.config import EPAD, PAD
from personaplex.core.errors import ModelError

SPACE = "▁"
"""What a piece holds in place of a space; a piece that begins with it begins a word."""

_TAG = "<system>"


class Tokenizer:
    """The vocabulary in one `tokenizer.model` file, of which `sha256` is the hash.

    A `ModelError` says that the file is missing or not a SentencePiece model, or, from the methods that take ids,
    that an id lies outside the vocabulary.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror}", "a model directory holds a tokenizer.model") from error
        try:
            if not data:
                raise RuntimeError("empty")
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
        except RuntimeError as error:
            mend = "use the tokenizer that came with the model; if it was downloaded, fetch it again"
            raise ModelError(f"{path}: not a SentencePiece model", mend) from error
        self.sha256 = hashlib.sha256(data).hexdigest()

    @property
    def vocab_size(self) -> int:
        """Number of pieces: ids run from 0 to one less."""
        return int(self._pieces.vocab_size())

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; characters that the vocabulary can't spell become 0."""
        return [int(token) for token in self._pieces.encode(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a whole id sequence, by SentencePiece's rules; ids that are not text are dropped first."""
        return str(self._pieces.decode([int(token) for token in ids if self.is_text(token)]))

    def piece(self, token: int) -> str:
        """The piece of one id, as the vocabulary spells it: `▁day`, `ing`, `<0x0A>`, `<s>`."""
        return str(self._pieces.id_to_piece(self._checked(token)))

    def is_text(self, token: int) -> bool:
        """Whether the id stands for text: it is neither PAD, EPAD nor a control id."""
        return token not in (PAD, EPAD) and not self._pieces.is_control(self._checked(token))

    def prompt_ids(self, text: str) -> list[int]:
        """The ids of a text prompt in its system tags; none for a blank one."""
        prompt = prompt_text(text)
        return self.encode(prompt) if prompt else []

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.vocab_size:
            what = f"{self._path}: token {token} is not one of its {self.vocab_size} pieces"
            raise ModelError(what, "use the tokenizer that came with the model")
        return int(token)


def prompt_text(text: str) -> str:
    """`text` stripped and put between system tags unless it both starts and ends with one; "" if blank."""
    text = text.strip()
    if not text or (text.startswith(_TAG) and text.endswith(_TAG)):
        return text
    return f"{_TAG} {text} {_TAG}"
