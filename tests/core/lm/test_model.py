"""One live call: which column is read, which is filled, and what it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from personaplex.core.config import USER
from personaplex.core.lm.state import FREE, LMState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from personaplex.core.lm.model import LM
    from tests.core.conftest import LoadedCase

ROWS = 4
INITIAL = [183, *[2048] * 16]


@pytest.fixture(scope="module")
def lm(short: LoadedCase) -> LM:
    return short.lm


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    """States are inference tensors, which only inference mode may change."""
    with torch.inference_mode():
        yield


def start(lm: LM) -> LMState:
    """All rows about to read the initial column, no token of the agent's forced."""
    state = lm.zeros(ROWS, 30)
    state.column.copy_(torch.tensor(INITIAL))
    state.held[:, USER] = 2048
    return state


def constant(logits: Tensor, stream: int) -> Tensor:
    """Stream s draws token 10 + s in every row."""
    return torch.full((len(logits),), 10 + stream)


def step(lm: LM, state: LMState, user: Tensor, active: list[bool], choose: Callable[[Tensor, int], Tensor]) -> Tensor:
    """One call on the device, counted on the host."""
    frame = lm.step(state, user, torch.tensor(active), choose)
    state.cache.count(1, active)
    return frame


def user_codes(frame: int) -> Tensor:
    return (100 * frame + torch.arange(8)).expand(ROWS, -1)


def test_embedding_is_the_sum_over_streams(lm: LM) -> None:
    columns = torch.stack([torch.arange(17), torch.tensor(INITIAL)])
    for column, found in zip(columns, lm.embed(columns), strict=True):
        expected = lm.text_emb[column[0]] + sum(lm.emb[k][column[1 + k]] for k in range(16))
        torch.testing.assert_close(found, expected)


def test_delays(lm: LM) -> None:
    """Codebook 0 of a frame stands in its own column, the others in the next; a frame is returned when complete."""
    state = start(lm)
    frames = [step(lm, state, user_codes(call), [True] * ROWS, constant) for call in (1, 2)]
    # Column 0 held the initial tokens, so the first frame is not one yet.
    assert frames[0][0].tolist() == [183, 2048, *range(12, 19)]
    assert frames[1][0].tolist() == [10, 11, *range(12, 19)]
    agent = list(range(10, 19))
    assert state.column[0].tolist() == [*agent, 200, *range(101, 108)]
    assert state.held[0].tolist() == [FREE] * 9 + list(range(200, 208))


def test_forced_tokens_stand_and_are_fed_to_the_next_step(lm: LM) -> None:
    """What waits in `held` replaces the draw; the logits of the steps behind it change, those before it don't."""
    seen: list[list[Tensor]] = [[], []]
    for forced, logits_seen in zip((False, True), seen, strict=True):
        state = start(lm)
        if forced:
            state.held[:, 4] = 777

        def choose(logits: Tensor, stream: int, logits_seen: list[Tensor] = logits_seen) -> Tensor:
            logits_seen.append(logits.clone())
            return constant(logits, stream)

        frame = step(lm, state, user_codes(1), [True] * ROWS, choose)
        assert frame[0, 4] == state.column[0, 4] == (777 if forced else 14)
    changed = [not torch.equal(one, other) for one, other in zip(*seen, strict=True)]
    assert changed == [False] * 5 + [True] * 4


def test_the_first_agent_code_sees_the_text_token(lm: LM) -> None:
    logits = []
    for text in (10, 11):
        found: list[Tensor] = []

        def choose(logits: Tensor, stream: int, text: int = text, found: list[Tensor] = found) -> Tensor:
            found.append(logits.clone())
            return torch.full((len(logits),), text if stream == 0 else 5)

        step(lm, start(lm), user_codes(1), [True] * ROWS, choose)
        logits.append(found)
    assert torch.equal(logits[0][0], logits[1][0])
    assert not any(torch.equal(one, other) for one, other in zip(logits[0][1:], logits[1][1:], strict=True))


def test_inactive_rows_stay_as_they_are(lm: LM) -> None:
    """A row that pauses draws, afterwards, from the logits that it would have drawn from."""
    straight, paused = start(lm), start(lm)
    seen: dict[str, list[Tensor]] = {"straight": [], "paused": []}

    def recorder(name: str, row: int = 1) -> Callable[[Tensor, int], Tensor]:
        def choose(logits: Tensor, stream: int) -> Tensor:
            seen[name].append(logits[row].clone())
            return logits.argmax(dim=-1)

        return choose

    everyone, others = [True] * ROWS, [True, False, True, True]
    for call in (1, 2, 3):
        step(lm, straight, user_codes(call), everyone, recorder("straight"))
    step(lm, paused, user_codes(1), everyone, recorder("paused"))
    before = paused.column[1].clone(), paused.held[1].clone()
    for call in (18, 19):
        step(lm, paused, user_codes(call), others, constant)
    assert torch.equal(paused.column[1], before[0])
    assert torch.equal(paused.held[1], before[1])
    assert paused.cache.filled == [3, 1, 3, 3]
    for call in (2, 3):
        step(lm, paused, user_codes(call), everyone, recorder("paused"))
    assert all(torch.equal(one, other) for one, other in zip(*seen.values(), strict=True))


@pytest.mark.parametrize("length", [3, 40, 150])
def test_prefill_equals_single_steps(lm: LM, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt in one chunk, in several, and a position at a time; the longest wraps the ring of 63 twice."""
    generator = torch.Generator().manual_seed(length)
    inputs = torch.randn(length, lm.config.dim, generator=generator)
    column, held = torch.arange(17), torch.arange(17, 34)
    whole = lm.prefill(inputs, column, held)
    assert torch.equal(whole.column[0], column)
    assert torch.equal(whole.held[0], held)
    monkeypatch.setattr("personaplex.core.lm.model.PREFILL_CHUNK", 37)
    chunked = lm.prefill(inputs, column, held)
    stepped = lm.temporal.zeros(1, length)
    for position in inputs:
        lm.temporal.step(position[None, None], stepped)
        stepped.advance(1, [True])
    assert whole.cache.slots == min(length, 63)
    for cache in (chunked.cache, stepped):
        assert cache.filled == cache.length.tolist() == whole.cache.filled == [length]
        torch.testing.assert_close(cache.keys, whole.cache.keys, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(cache.values, whole.cache.values, rtol=1e-4, atol=1e-4)


def test_state_reset_and_copy_row(lm: LM) -> None:
    state = start(lm)
    for call in (1, 2):
        step(lm, state, user_codes(call), [True] * ROWS, constant)
    target = lm.zeros(2, 30)
    target.copy_row(1, state, 3)
    assert torch.equal(target.column[1], state.column[3])
    assert torch.equal(target.held[1], state.held[3])
    assert target.cache.filled == [0, 2]
    assert target.column[0].tolist() == [0] * 17
    state.reset([0, 2])
    assert state.cache.filled == [0, 2, 0, 2]
    assert state.column[[0, 2]].tolist() == [[0] * 17] * 2
    assert (state.held[[0, 2]] == FREE).all()
    assert (state.held[[1, 3]] != FREE).any()
