"""A call's tokens and logits depend on that call alone, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS, EPAD, PAD
from personaplex.core.engine.session import Persona, RecordedVoice, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.nn import int8
from personaplex.core.nn.kernels import compiled
from personaplex.core.sampling.draw import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from personaplex.core.lm.model import LM
    from tests.core.conftest import LoadedCase

POSITIONS = 100
GREEDY, SAMPLED = Sampling(greedy=True), Sampling()
AGAINST_LOOPS = Sampling(top_p_text=0.9, repetition_penalty=1.2, no_repeat_ngram=1)
WEIGHTS = ("float32", "bfloat16", "int8")


@dataclass(eq=False)
class Call:
    """A call, and what came of it."""

    persona: Persona
    user: Tensor  # [F, 8]
    seed: int
    tokens: list[Tensor] = field(default_factory=list)
    logits: list[list[Tensor]] = field(default_factory=list)

    def again(self, seed: int | None = None) -> Call:
        """The same call, not yet run."""
        return Call(self.persona, self.user, self.seed if seed is None else seed)


def language_model(case: LoadedCase, weights: str) -> LM:
    """The case's, in float32 or bfloat16; "int8" computes in bfloat16 too."""
    return case.lm if weights == "float32" else case.lm_in(torch.bfloat16, int8=weights == "int8")


def codes(frames: int, seed: int) -> Tensor:
    return torch.randint(2048, (frames, CODEBOOKS), generator=torch.Generator().manual_seed(seed))


def play(engine: Engine, calls: Sequence[tuple[int, int, Call]]) -> None:
    """Run calls given as (slot, tick at which they start, call); slots without one are fed nonsense."""
    waiting, live = list(calls), dict[int, Call]()
    tick = 0

    def watch(stream: int, logits: Tensor) -> None:
        assert len(logits) == engine.slots
        for slot, call in live.items():
            if stream == 0:
                call.logits.append([])
            call.logits[-1].append(logits[slot].clone())

    while waiting or live:
        for entry in [entry for entry in waiting if entry[1] <= tick]:
            slot, _, call = entry
            engine.admit(slot, call.persona, call.seed, len(call.user))
            live[slot] = call
            waiting.remove(entry)
        user = codes(engine.slots, seed=tick)
        for slot, call in live.items():
            user[slot] = call.user[len(call.tokens)]
        tokens = engine.step(user, watch)
        assert tokens.shape == (engine.slots, 1 + CODEBOOKS)
        for slot, call in list(live.items()):
            call.tokens.append(tokens[slot].clone())
            if len(call.tokens) == len(call.user):
                engine.release(slot)
                del live[slot]
        tick += 1


def alone(lm: LM, sampling: Sampling, call: Call) -> Call:
    """The call in the only slot of its own engine."""
    result = call.again()
    play(Engine(lm, 1, POSITIONS, sampling), [(0, 0, result)])
    return result


def assert_same(found: Call, expected: Call) -> None:
    """Every token, and every logit of all nine streams."""
    assert len(found.tokens) == len(found.logits) == len(expected.tokens) == len(expected.user)
    assert torch.equal(torch.stack(found.tokens), torch.stack(expected.tokens))
    for here, there in zip(found.logits, expected.logits, strict=True):
        assert len(here) == len(there) == 1 + CODEBOOKS
        assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


@dataclass(eq=False)
class World:
    """A model, how it samples, three calls of it and what each gives alone."""

    lm: LM
    sampling: Sampling
    long: Call
    loud: Call
    brief: Call

    def engine(self, slots: int) -> Engine:
        return Engine(self.lm, slots, POSITIONS, self.sampling)


@pytest.fixture(
    scope="module",
    params=[
        *("float32-greedy", "float32-sampled", "bfloat16-greedy", "compiled-sampled", "float32-loops"),
        *("int8-greedy", "int8-sampled"),
    ],
)
def world(request: pytest.FixtureRequest, short: LoadedCase) -> Iterator[World]:
    """The long call wraps its ring of 63 positions; the loud one has no persona or input in common with it.

    In bfloat16 either torch attends or what numba compiled.
    """
    weights, _, mode = request.param.partition("-")
    lm = language_model(short, weights)
    sampling = {"greedy": GREEDY, "sampled": SAMPLED, "loops": AGAINST_LOOPS}[mode]
    personas = [
        prefill(lm, short.config, RecordedVoice(codes(frames, seed)), text)
        for frames, seed, text in ((5, 1, [40, 41]), (20, 2, list(range(60, 100))), (1, 3, []))
    ]
    frames = (55, 12, 9)
    calls = [Call(persona, codes(n, 100 + n), n) for persona, n in zip(personas, frames, strict=True)]
    assert calls[0].persona.steps + frames[0] > lm.config.window + 5
    with pytest.MonkeyPatch.context() as patch:
        if weights == "bfloat16":
            patch.setattr(compiled, "_is_installed", lambda: False)
        yield World(lm, sampling, *(alone(lm, sampling, call) for call in calls))


def test_calls_differ_and_are_not_constant(world: World) -> None:
    """So that the tests below compare something."""
    tokens = [torch.stack(call.tokens[:9]) for call in (world.long, world.loud, world.brief)]
    assert all((one != other).float().mean() > 0.8 for one, other in zip(tokens, [*tokens[1:], tokens[0]], strict=True))
    assert len(torch.stack(world.long.tokens)[1:].unique(dim=0)) > 50


def test_the_first_frame_is_the_last_of_the_prompt(world: World) -> None:
    silence = [948, 243, 1178, 546, 1736, 1030, 1978, 2008]
    for call in (world.long, world.loud, world.brief):
        assert call.tokens[0].tolist() == [3, *silence]
        assert call.tokens[1].tolist() != [3, *silence]


def test_the_last_user_frame_affects_nothing(world: World) -> None:
    """The call that supplies it reads the column before it."""
    changed = world.brief.again()
    changed.user = torch.cat([changed.user[:-1], codes(1, seed=999)])
    assert_same(alone(world.lm, world.sampling, changed), world.brief)
    changed = changed.again()
    changed.user = torch.cat([changed.user[:-2], codes(1, seed=998), changed.user[-1:]])
    with pytest.raises(AssertionError):
        assert_same(alone(world.lm, world.sampling, changed), world.brief)


@pytest.mark.parametrize(("slots", "slot"), [(1, 0), (3, 1), (3, 2), (8, 0), (8, 7), (13, 5)])
def test_the_number_of_slots_and_the_place_do_not_matter(world: World, slots: int, slot: int) -> None:
    call = world.brief.again()
    play(world.engine(slots), [(slot, 0, call)])
    assert_same(call, world.brief)


@pytest.mark.parametrize("slots", [3, 8])
def test_neighbours_do_not_matter(world: World, slots: int) -> None:
    """Neighbours longer, shorter, started before and after; the last slot's is admitted mid-way."""
    long, brief = world.long.again(), world.brief.again()
    loud = [world.loud.again() for _ in range(slots - 2)]
    play(world.engine(slots), [(0, 2, long), (slots - 1, 17, brief), *((1 + n, 4 * n, c) for n, c in enumerate(loud))])
    assert_same(long, world.long)
    assert_same(brief, world.brief)
    for call in loud:
        assert_same(call, world.loud)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_thread_that_takes_a_row_does_not_matter(short: LoadedCase, weights: str) -> None:
    """Half of the rows fall to each of two threads; the last slot's is another than the first's."""
    lm = language_model(short, weights)
    call = Call(prefill(lm, short.config, RecordedVoice(codes(1, 3)), []), codes(6, 4), seed=1)
    expected = alone(lm, GREEDY, call)
    for slots in (3, 8):
        last = call.again()
        play(Engine(lm, slots, POSITIONS, GREEDY), [(slots - 1, 0, last)])
        assert_same(last, expected)


def test_a_used_slot_leaks_nothing(world: World) -> None:
    """Three calls one after the other in a slot, the next longer and then shorter than the last, with gaps between."""
    first, second, third = world.brief.again(), world.long.again(), world.loud.again()
    play(world.engine(3), [(1, 0, first), (1, 9, second), (1, 70, third), (0, 3, world.loud.again())])
    assert_same(first, world.brief)
    assert_same(second, world.long)
    assert_same(third, world.loud)


def test_a_longer_cache_does_not_matter(world: World) -> None:
    call = world.brief.again()
    steps = call.persona.steps + len(call.user)
    assert steps < 63
    play(Engine(world.lm, 1, steps, world.sampling), [(0, 0, call)])
    assert_same(call, world.brief)


def test_the_seed_matters_where_tokens_are_drawn(world: World) -> None:
    other = alone(world.lm, world.sampling, world.brief.again(seed=world.brief.seed + 1))
    same = torch.equal(torch.stack(other.tokens), torch.stack(world.brief.tokens))
    assert same == world.sampling.greedy
    assert_same(alone(world.lm, world.sampling, world.brief), world.brief)


def test_the_same_call_in_two_slots(world: World) -> None:
    """With one seed they are one; with two they part."""
    twin, other = world.brief.again(), world.brief.again(seed=77)
    play(world.engine(3), [(0, 0, world.brief.again()), (1, 0, other), (2, 3, twin)])
    assert_same(twin, world.brief)
    assert_same(other, alone(world.lm, world.sampling, world.brief.again(seed=77)))


def test_draws_count_live_frames_alone(short: LoadedCase) -> None:
    """With equal logits the tokens show the noise, which does not depend on how long the prompt was."""
    sampling = Sampling(temp_text=1e9, top_k_text=0, temp_audio=1e9, top_k_audio=0)
    tokens = []
    for frames in (1, 9):
        persona = prefill(short.lm, short.config, RecordedVoice(codes(frames, 1)), [])
        call = alone(short.lm, sampling, Call(persona, codes(6, 2), seed=5))
        tokens.append(torch.stack(call.tokens))
    assert torch.equal(*tokens)
    assert (tokens[0][2:] != tokens[0][1:-1]).all()


@pytest.mark.parametrize("greedy", [True, False])
def test_what_was_said_is_not_said_again(short: LoadedCase, greedy: bool) -> None:
    """Text forbidden to repeat a token says each once, through a slot that another call has used."""
    persona = prefill(short.lm, short.config, RecordedVoice(codes(3, 1)), [])
    call = Call(persona, codes(60, 2), seed=5)
    sampling = Sampling(greedy=greedy, no_repeat_ngram=1)
    engine = Engine(short.lm, 2, POSITIONS, sampling)
    again = call.again()
    play(engine, [(1, 0, call), (1, 61, again), (0, 5, Call(persona, codes(60, 3), seed=6))])
    assert_same(again, call)
    text = [token for token in torch.stack(call.tokens)[1:, 0].tolist() if token not in {PAD, EPAD}]
    assert len(text) == len(set(text)) > 30
    plain = torch.stack(alone(short.lm, Sampling(greedy=greedy), call).tokens)[1:, 0].tolist()
    assert len(set(plain)) < len(plain) - 5


def test_weights_in_int8_are_laid_out_for_the_slots(short: LoadedCase, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = int8.KERNELS["cpu"][-2:]  # exact anywhere
    monkeypatch.setattr(int8, "KERNELS_ALONE", {"cpu": (one,)})
    monkeypatch.setattr(int8, "KERNELS", {"cpu": (other,)})
    lm = short.lm_in(torch.bfloat16, int8=True)
    for slots, kernel in ((1, one), (2, other)):
        Engine(lm, slots, 8, GREEDY)
        assert lm.temporal.layers[0].in_proj.kernel is kernel


def test_a_call_longer_than_the_engine(short: LoadedCase) -> None:
    persona = prefill(short.lm, short.config, RecordedVoice(codes(2, 1)), [])
    engine = Engine(short.lm, 1, persona.steps + 5, GREEDY)
    with pytest.raises(ValueError, match=r"14 \+ 6 calls in an engine for 19"):
        engine.admit(0, persona, 1, 6)
    engine.admit(0, persona, 1, 5)
