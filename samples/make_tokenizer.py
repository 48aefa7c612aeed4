"""Trains the tiny model's SentencePiece tokenizer on corpus.txt.

    python -m personaplex.samples.make_tokenizer

Ids 0 to 3 are unk, bos, eos and pad, as in the published tokenizer, then come 256 bytes, then the learned pieces.
Text that the pieces don't cover is spelt in bytes, so 0 never stands for text.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import sentencepiece

VOCABULARY = 512
CORPUS = Path(__file__).parent / "corpus.txt"
TOKENIZER = Path(__file__).parent / "models" / "tiny" / "tokenizer.model"


def train(sentences: list[str], vocabulary: int = VOCABULARY, whole: Sequence[str] = ()) -> bytes:
    """A serialized unigram model of `vocabulary` pieces, those of `whole` among them."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        # An iterator and a writer: given file names, the model would record them.
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocabulary,
        character_coverage=1.0,
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        num_threads=1,
        user_defined_symbols=list(whole),
        minloglevel=2,
    )
    return model.getvalue()


if __name__ == "__main__":
    TOKENIZER.parent.mkdir(parents=True, exist_ok=True)
    TOKENIZER.write_bytes(train(CORPUS.read_text(encoding="utf-8").splitlines()))
