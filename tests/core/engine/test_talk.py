"""Two personas in conversation: each hears exactly the other, and nobody else's conversation matters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from personaplex.core.config import PAD, ModelConfig
from personaplex.core.engine import talk as engine
from personaplex.core.engine.ending import Ending, EndWatch
from personaplex.core.engine.job import Prompt
from personaplex.core.engine.line import Line, LineState, noise
from personaplex.core.engine.session import silence
from personaplex.core.engine.talk import Conversation, Side, Talked, TalkFailure, Talks
from personaplex.core.errors import InputError
from personaplex.core.sampling.draw import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from personaplex.core.engine.talk import LiveTalk
    from personaplex.core.weights.model import Model

NEVER = Ending(None, None)
OFTEN = Sampling(temp_text=1.5, repetition_penalty=1.3, no_repeat_ngram=2)


def script(frames: int, config: ModelConfig) -> Tensor:
    """Silence, and PAD as its text."""
    return torch.cat([torch.full((frames, 1), PAD), silence(config).repeat(frames, 1)], dim=1)


@pytest.fixture
def conversations(model: Model, prompts: list[Prompt]) -> list[Conversation]:
    """Five of all kinds, of different lengths."""
    config = model.config
    free = script(0, config)
    opening = torch.cat([torch.full((6, 1), PAD), torch.arange(48).view(6, 8) + 100], dim=1)
    plain, own = Sampling(), Sampling(temp_audio=0.4)

    def one(name: str, frames: int, a: Side, b: Side, line: Line | None = None) -> Conversation:
        return Conversation(name, (a, b), frames, line, NEVER)

    return [
        one("plain", 14, Side(prompts[0], 1, plain, free), Side(prompts[1], 2, plain, free)),
        one("hushed", 17, Side(prompts[1], 3, plain, free), Side(prompts[0], 4, plain, script(5, config))),
        one("opened", 20, Side(prompts[0], 5, own, opening), Side(prompts[1], 6, OFTEN, script(6, config))),
        one("line", 11, Side(prompts[1], 7, plain, free), Side(prompts[1], 8, own, free), Line(6, "telephone", -40)),
        one("same", 14, Side(prompts[0], 1, plain, free), Side(prompts[0], 1, plain, free)),
    ]


def run(model: Model, slots: int, conversations: Sequence[Conversation]) -> dict[str, Talked]:
    outcomes = list(Talks(model, slots, Sampling(), lambda talked: talked, lambda _: None).run(conversations))
    assert all(isinstance(one, Talked) for one in outcomes)
    return {one.conversation.id: one for one in outcomes if isinstance(one, Talked)}


def test_a_conversation_is_its_own(model: Model, conversations: list[Conversation]) -> None:
    alone = {one.id: run(model, 2, [one])[one.id] for one in conversations}
    for slots, order in ((2, conversations[::-1]), (4, conversations), (10, conversations[2:] + conversations[:2])):
        together = run(model, slots, order)
        assert together.keys() == alone.keys()
        for name, talked in together.items():
            for side in range(2):
                assert np.array_equal(talked.tokens[side], alone[name].tokens[side])
                assert np.array_equal(talked.heard[side], alone[name].heard[side])
                assert talked.samples[side].tobytes() == alone[name].samples[side].tobytes()


def test_each_side_hears_exactly_the_other_a_frame_later(model: Model, conversations: list[Conversation]) -> None:
    for name, talked in run(model, 4, [one for one in conversations if one.line is None]).items():
        for side in range(2):
            other = talked.tokens[1 - side][:, 1:]
            assert np.array_equal(talked.heard[side][1:], other[:-1]), name
            assert np.array_equal(talked.heard[side][0], silence(model.config).numpy())


def test_the_engine_is_given_what_the_transcript_says_was_heard(
    model: Model, conversations: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Tensor] = []
    step = engine.Engine.step

    def traced(self: engine.Engine, user: Tensor, forced: Tensor | None = None) -> Tensor:
        given.append(user.clone())
        return step(self, user, forced=forced)

    monkeypatch.setattr(engine.Engine, "step", traced)
    talked = run(model, 2, conversations[:1])["plain"]
    assert np.array_equal(torch.stack(given)[:, 0].numpy(), talked.heard[0])
    assert np.array_equal(torch.stack(given)[:, 1].numpy(), talked.heard[1])


def test_a_script_is_said_and_then_the_side_is_free(model: Model, conversations: list[Conversation]) -> None:
    opened = next(one for one in conversations if one.id == "opened")
    talked = run(model, 2, [opened])["opened"]
    for side in range(2):
        forced = opened.sides[side].script.numpy()
        assert np.array_equal(talked.tokens[side][1 : len(forced) + 1], forced)  # call 0 returns the prompt's last
    free = talked.tokens[1][len(opened.sides[1].script) + 1 :, 1:]
    assert (free != silence(model.config).numpy()).any()


def test_what_is_forced_does_not_touch_other_slots(model: Model, conversations: list[Conversation]) -> None:
    plain = conversations[0]
    scripted = replace(
        plain, id="scripted", sides=(plain.sides[0], replace(plain.sides[1], script=script(3, model.config)))
    )
    found = run(model, 4, [plain, scripted])
    assert np.array_equal(found["plain"].tokens[0], run(model, 2, [plain])["plain"].tokens[0])
    assert not np.array_equal(found["scripted"].tokens[1], found["plain"].tokens[1])


def test_a_samplings_own_is_that_of_an_engine_of_it(model: Model, conversations: list[Conversation]) -> None:
    plain = conversations[0]
    own = replace(plain, sides=(replace(plain.sides[0], sampling=OFTEN), replace(plain.sides[1], sampling=OFTEN)))
    (whole,) = Talks(model, 2, OFTEN, lambda talked: talked, lambda _: None).run([own])
    assert isinstance(whole, Talked)
    found = run(model, 2, [own])["plain"]
    assert np.array_equal(found.tokens[0], whole.tokens[0])
    assert not np.array_equal(found.tokens[0], run(model, 2, [plain])["plain"].tokens[0])


def test_a_line_is_a_function_of_codes_seed_and_frame(model: Model) -> None:
    codes = torch.randint(2048, (6, 8), generator=torch.Generator().manual_seed(3))

    def carried(line: Line, seed: int = 1) -> Tensor:
        state = LineState(line, seed, model.mimi)
        return torch.stack([state.carry(one, frame) for frame, one in enumerate(codes)])

    noisy = Line(noise_dbfs=-30)
    assert torch.equal(carried(noisy), carried(noisy))
    assert not torch.equal(carried(noisy), carried(noisy, seed=2))
    for line in (noisy, Line(gain_db=-20), Line(band="telephone"), Line(delay=0.1)):
        assert not torch.equal(carried(line), carried(Line()))


def test_a_lines_noise_has_its_level_and_no_memory() -> None:
    one = noise(5, 3)
    assert np.array_equal(one, noise(5, 3))
    assert not np.array_equal(one, noise(5, 4))
    assert not np.array_equal(one, noise(6, 3))
    assert np.sqrt(np.mean(np.concatenate([noise(1, frame) for frame in range(50)]) ** 2)) == pytest.approx(1, abs=0.01)


def test_a_late_line_delivers_the_same_sound_later(model: Model) -> None:
    state = LineState(Line(delay=0.16), 1, model.mimi)
    prompt = LineState(Line(), 1, model.mimi)
    sound = np.random.default_rng(0).standard_normal((6, 1920)).astype(np.float32)
    late = np.concatenate([state._changed(frame, number) for number, frame in enumerate(sound)])
    soon = np.concatenate([prompt._changed(frame, number) for number, frame in enumerate(sound)])
    assert np.array_equal(late[3840:], soon[:-3840])
    assert not late[:3840].any()


@pytest.mark.parametrize("frames", [12, 3])
def test_silence_ends_a_conversation(model: Model, frames: int) -> None:
    watch = EndWatch(Ending(frames, None), model.tokenizer, start=4)
    word = model.tokenizer.encode("yes")[0]
    said = [(PAD, PAD)] * 5 + [(PAD, word)] + [(0, PAD)] * 20
    reasons = [watch.take(text) for text in said]
    first = reasons.index("silence")
    assert first == (5 + frames if frames > 5 - 4 + 1 else 4 + frames - 1)


def test_goodbye_words_end_a_conversation_soon(model: Model) -> None:
    watch = EndWatch(Ending(50, 4), model.tokenizer, start=0)
    pieces = model.tokenizer.encode("Thank you, goodbye!")
    reasons = [watch.take((piece, PAD)) for piece in pieces] + [watch.take((PAD, PAD)) for _ in range(6)]
    assert reasons.index("goodbye") == len(pieces) + 3
    never = EndWatch(Ending(None, None), model.tokenizer, start=0)
    assert {never.take((PAD, PAD)) for _ in range(500)} == {None}


def test_a_failed_delivery_fails_alone(model: Model, conversations: list[Conversation]) -> None:
    def deliver(talked: Talked) -> str:
        if talked.conversation.id == "hushed":
            raise InputError("no", "mend")
        return talked.conversation.id

    outcomes = list(Talks(model, 4, Sampling(), deliver, lambda _: None).run(conversations))
    failed = [one for one in outcomes if isinstance(one, TalkFailure)]
    assert [(one.conversation.id, one.error.what) for one in failed] == [("hushed", "no")]
    assert sorted(one for one in outcomes if isinstance(one, str)) == ["line", "opened", "plain", "same"]


def test_stopped_conversations_are_dropped(model: Model, conversations: list[Conversation]) -> None:
    def watch(live: Sequence[LiveTalk]) -> None:
        if any(len(talk.said) == 12 for talk in live):
            talks.stop()

    talks = Talks(model, 10, Sampling(), lambda talked: talked.conversation.id, watch)
    assert list(talks.run(conversations)) == ["line"]
