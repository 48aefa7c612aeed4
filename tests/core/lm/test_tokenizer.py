import hashlib
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.errors import ModelError
from personaplex.core.lm.tokenizer import Tokenizer, prompt_text

MODEL = Path(__file__).parents[2] / "data" / "tokenizer.model"
TOKENIZER = Tokenizer(MODEL)
PLAIN = sentencepiece.SentencePieceProcessor(model_file=str(MODEL))
IDS = {TOKENIZER.piece(token): token for token in range(TOKENIZER.vocab_size)}


def test_vocabulary() -> None:
    assert TOKENIZER.vocab_size == 183
    assert [TOKENIZER.piece(token) for token in (0, 1, 2, 3, 4, 7)] == ["<unk>", "<s>", "</s>", "<pad>", "▁", "▁a"]


def test_the_hash_is_of_the_file() -> None:
    assert TOKENIZER.sha256 == hashlib.sha256(MODEL.read_bytes()).hexdigest()


def test_encode_and_back() -> None:
    text = "You enjoy having a good day."
    ids = TOKENIZER.encode(text)
    assert ids == PLAIN.encode(text)
    assert all(type(token) is int for token in ids)
    assert TOKENIZER.decode(ids) == text


@given(st.lists(st.integers(0, 182)))
def test_decodes_as_sentencepiece_without_padding(ids: list[int]) -> None:
    assert TOKENIZER.decode(ids) == PLAIN.decode([token for token in ids if token not in (0, 3)])


def test_padding_and_control_ids_are_not_text() -> None:
    assert TOKENIZER.decode([3, 0, 1, IDS["▁an"], 3, 0, 2, IDS["s"], 1]) == "ans"
    assert [TOKENIZER.is_text(token) for token in range(5)] == [False, False, False, False, True]


@pytest.mark.parametrize("token", [-1, 183, 32_000])
def test_token_outside_the_vocabulary(token: int) -> None:
    for use in (TOKENIZER.piece, TOKENIZER.is_text, lambda token: TOKENIZER.decode([5, token])):
        with pytest.raises(ModelError, match=f"tokenizer.model: token {token} is not one of its 183 pieces") as raised:
            use(token)
        assert raised.value.mend


def test_missing(tmp_path: Path) -> None:
    for path in (tmp_path / "none.model", tmp_path):
        with pytest.raises(ModelError, match=path.name) as raised:
            Tokenizer(path)
        assert raised.value.mend


@pytest.mark.parametrize("data", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x00" * 64, b"{}"])
def test_not_a_model(tmp_path: Path, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.model"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"broken.model: not a SentencePiece model") as raised:
        Tokenizer(path)
    assert raised.value.mend
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("", ""),
        (" \n\t", ""),
        ("  You teach. ", "<system> You teach. <system>"),
        ("<system> You teach. <system>", "<system> You teach. <system>"),
        (" <system>You teach.<system>\n", "<system>You teach.<system>"),
        ("<system> You teach.", "<system> <system> You teach. <system>"),
        ("You teach. <system>", "<system> You teach. <system> <system>"),
        ("<system>", "<system>"),
    ],
)
def test_prompt_text(text: str, prompt: str) -> None:
    assert prompt_text(text) == prompt
    assert TOKENIZER.prompt_ids(text) == PLAIN.encode(prompt)


@given(st.text())
def test_prompt_text_twice_is_once(text: str) -> None:
    assert prompt_text(prompt_text(text)) == prompt_text(text)


def test_the_length_of_a_known_prompt() -> None:
    assert len(TOKENIZER.prompt_ids("You enjoy having a good conversation.")) == 34
    assert TOKENIZER.prompt_ids("  ") == []
