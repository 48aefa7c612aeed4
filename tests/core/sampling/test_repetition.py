"""What a call has said, and what that does to its next text token; the oracles count in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from personaplex.core.config import EPAD, PAD
from personaplex.core.sampling.repetition import Said, discourage

VOCABULARY = 12
TOKENS = st.lists(st.integers(0, VOCABULARY - 1), max_size=20)
CPU = torch.device("cpu")


def said_of(rows: list[list[int]], length: int = 24) -> Said:
    """The state after each row has drawn its tokens, one a frame; the shorter rows are idle afterwards."""
    said = Said.zeros(len(rows), length, CPU)
    for frame in range(max(map(len, rows), default=0)):
        token = torch.tensor([row[frame] if frame < len(row) else 7 for row in rows])
        said.advance(token, torch.tensor([frame < len(row) for row in rows]))
    return said


def spoken(tokens: list[int]) -> list[int]:
    return [token for token in tokens if token not in {PAD, EPAD}]


def logits_of(rows: int) -> Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(rows))


def banned(tokens: list[int], ngram: int) -> set[int]:
    """Tokens that would end an n-gram which is in `tokens` already."""
    seen = {tuple(tokens[i : i + ngram]) for i in range(len(tokens) - ngram + 1)}
    tail = tuple(tokens[len(tokens) - ngram + 1 :])
    return {token for token in range(VOCABULARY) if (*tail, token) in seen}


@given(st.lists(TOKENS, min_size=1, max_size=4))
def test_rows_keep_what_was_said_without_padding(rows: list[list[int]]) -> None:
    said = said_of(rows)
    for row, tokens in enumerate(rows):
        assert said.tokens[row, : said.count[row]].tolist() == spoken(tokens)


@given(st.lists(TOKENS, min_size=1, max_size=4), st.integers(1, 6))
def test_no_ngram_is_said_twice(rows: list[list[int]], ngram: int) -> None:
    scores = discourage(logits_of(len(rows)), said_of(rows), 1, ngram)
    for row, tokens in enumerate(rows):
        forbidden = {int(token) for token in (scores[row] == -math.inf).nonzero()[:, 0]}
        assert forbidden == (banned(spoken(tokens), ngram) if len(spoken(tokens)) >= ngram else set())
        assert not forbidden & {PAD, EPAD}


@given(TOKENS)
def test_the_penalty_is_of_what_was_said(tokens: list[int]) -> None:
    logits = logits_of(1)
    scores = discourage(logits, said_of([tokens]), 1.5, 0)
    for token, (before, after) in enumerate(zip(logits[0].tolist(), scores[0].tolist(), strict=True)):
        expected = (before / 1.5 if before > 0 else before * 1.5) if token in spoken(tokens) else before
        assert after == pytest.approx(expected, rel=1e-6)


@given(st.lists(TOKENS, min_size=2, max_size=5), st.integers(0, 4))
def test_a_row_does_not_depend_on_the_others(rows: list[list[int]], ngram: int) -> None:
    logits = logits_of(len(rows)).bfloat16()
    together = discourage(logits, said_of(rows), 1.3, ngram)
    assert together.dtype == torch.float32
    for row, tokens in enumerate(rows):
        assert torch.equal(together[row : row + 1], discourage(logits[row : row + 1], said_of([tokens]), 1.3, ngram))


def test_a_reset_row_has_said_nothing() -> None:
    said = said_of([[5, 6, 5], [5, 6, 5]])
    said.reset([0])
    scores = discourage(logits_of(2), said, 1, 2)
    assert (scores == -math.inf).nonzero().tolist() == [[1, 6]]


def test_an_ngram_longer_than_the_call_forbids_nothing() -> None:
    logits = logits_of(1)
    assert torch.equal(discourage(logits, said_of([[5, 5]], length=3), 1, 4), logits)
