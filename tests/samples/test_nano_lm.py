"""The recipe of the small language model: calls are as the engine runs them, and the training pass is the model."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from personaplex.core.config import AGENT, EPAD, PAD, PERSONAPLEX_7B, USER, DepthConfig, LMConfig, ModelConfig
from personaplex.core.engine.session import RecordedVoice, prefill
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.products import pack
from personaplex.samples import make_tokenizer
from personaplex.samples.nano.recipe import domain, lm_pass
from personaplex.samples.nano.recipe.exam import examine, questions
from personaplex.samples.nano.recipe.freeze import CODEC
from personaplex.samples.nano.recipe.mix import Kind, Mixer, columns
from personaplex.samples.nano.recipe.slips import with_slips
from personaplex.samples.nano.recipe.timeline import Call, varied
from personaplex.samples.nano.recipe.tokenizer import VOCABULARY, sentences, words
from personaplex.samples.nano.recipe.trainee import GREETS_WEIGHT, Lesson, Trainee, batched, embed_as
from personaplex.samples.nano.recipe.words import stream, word_starts

CODES = 16


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    told = sentences()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    path.write_bytes(make_tokenizer.train(told, VOCABULARY, words(told)))
    return Tokenizer(path)


@pytest.fixture(scope="module")
def mixer(tokenizer: Tokenizer) -> Mixer:
    """Of utterances whose codes are random, one frame a word and one behind."""
    draw = torch.Generator().manual_seed(0)

    def codes(count: int) -> Tensor:
        return torch.randint(1, CODES, (count, 8), generator=draw).short()

    def said(index: int, text: str) -> dict[str, Any]:
        return {"intent": index, "text": text, "codes": codes(3 * len(text.split()) + 1)}

    def caller() -> dict[str, Any]:
        asked = [said(index, intent.asked[0]) for index, intent in enumerate(domain.intents())]
        return {"line": codes(50), "said": [*asked, *(said(-1, murmur) for murmur in domain.MURMURS)]}

    def unit(text: str) -> dict[str, Any]:
        return {"codes": codes(len(text.split()) + 1), "starts": list(range(len(text.split())))}

    units = {
        "silence": [0] * 8,
        "sine": list(range(8)),
        "agents": {"a": {text: unit(text) for text in domain.utterances()}},
        "voices": {"a": [codes(5)]},
        "callers": [caller()],
        "held_out": [caller()],
    }
    return Mixer(units, tokenizer)


def small(vocabulary: int) -> LMConfig:
    depth = DepthConfig(dim=8, num_heads=2, num_layers=2, feedforward=12, codebooks=8)
    lm = PERSONAPLEX_7B.lm
    return LMConfig(16, 2, 2, 24, 600, vocabulary, CODES, lm.streams, lm.delays, depth)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - variety, not secrets


def trainee_of(mixer: Mixer) -> Trainee:
    torch.manual_seed(0)
    return Trainee(small(mixer.tokenizer.vocab_size), mixer.silence, len(domain.intents()))


def initial(config: LMConfig) -> Tensor:
    return torch.tensor([config.text_vocab] + 16 * [config.audio_vocab])


@torch.inference_mode()
def test_training_pass_is_what_the_engine_runs(mixer: Mixer) -> None:
    trainee = trainee_of(mixer)
    config = trainee.lm.config
    call = mixer.call(seeded(3))
    told = columns(call.frames, initial(config))
    context = lm_pass.hidden(told[None, :-1], trainee.lm)[0]
    codes = lm_pass.code_logits(context, told[1:, 0], told[1:, AGENT], trainee.lm.depth)
    text = context @ trainee.lm.text_linear.T

    ids = [int(token) for token in call.frames[: call.prompt, 0] if token != PAD]
    voice = RecordedVoice(call.frames[: call.prompt - len(ids) - 12, AGENT])
    mimi = replace(PERSONAPLEX_7B.mimi, codebook_size=CODES)
    shapes = ModelConfig("personaplex", config, mimi, [0] * 8, list(range(8)), PERSONAPLEX_7B.files)
    pack(trainee.lm)
    state = prefill(trainee.lm, shapes, voice, ids).state
    room = trainee.lm.zeros(1, len(told))
    room.copy_row(0, state, 0)
    for column in range(call.prompt, call.prompt + 30):
        given: dict[int, Tensor] = {}

        def choose(logits: Tensor, stream: int, column: int = column, given: dict[int, Tensor] = given) -> Tensor:
            given[stream] = logits[0]
            return told[column, stream][None]

        trainee.lm.step(room, call.frames[None, column, USER], torch.ones(1, dtype=torch.bool), choose)
        room.cache.count(1, [True])
        torch.testing.assert_close(given[0], text[column - 1], atol=1e-4, rtol=1e-4)
        for level in range(8):
            torch.testing.assert_close(given[1 + level], codes[level, column - 1], atol=1e-4, rtol=1e-4)


def test_columns_beyond_the_window_are_refused(mixer: Mixer) -> None:
    with pytest.raises(ValueError, match="window of 599"):
        lm_pass.hidden(torch.zeros(1, 600, 17, dtype=torch.int64), trainee_of(mixer).lm)


@pytest.mark.parametrize("lesson", Lesson)
def test_steps_make_a_call_likelier(mixer: Mixer, lesson: Lesson) -> None:
    trainee = trainee_of(mixer)
    drawn = {Lesson.CALLS: mixer.call, Lesson.HEARING: mixer.utterance, Lesson.READING: mixer.reading}[lesson]
    batch = batched([drawn(seeded(seed)) for seed in (1, 2)], initial(trainee.lm.config), lesson)
    optimizer = torch.optim.AdamW(trainee.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        loss = trainee(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]


def test_what_is_to_be_told_of_a_caller_lies_where_it_is_heard(mixer: Mixer) -> None:
    calls = [mixer.call(seeded(seed), Kind.QUESTIONS) for seed in range(2)]
    batch = batched(calls, initial(small(mixer.tokenizer.vocab_size)))
    codes = torch.stack([batch.columns[row, :-1, USER] for row in range(2)]).flatten(0, 1)
    heard = [(row, said) for row, call in enumerate(calls) for said in call.heard]
    for number, (row, said) in enumerate(heard):
        frames = batch.frames[number, : batch.lengths[number]]
        first = calls[row].frames[said.start : said.end, USER][:, 0]
        assert torch.equal(codes[frames, 0][: len(first)], first)
        assert tuple(batch.words[number, : batch.counts[number]].tolist()) == said.words
        if said.intent >= 0:
            assert batch.wants[row, said.end] == said.intent


def test_what_the_agent_chooses_starts_where_its_word_stands(mixer: Mixer) -> None:
    call = mixer.call(seeded(1), Kind.FACTS)
    words = {choice.what: mixer.tokenizer.piece(int(call.frames[choice.start, 0])) for choice in call.choices}
    told = mixer.tokenizer.decode(call.frames[: call.prompt, 0].tolist())
    assert set(words) == {"answer", "name", "fact"}
    assert f"name is {words['name'].removeprefix('▁')}" in told
    assert words["fact"].removeprefix("▁") in told


def test_what_is_read_is_in_the_prompt_and_words_alone_are_learned_of_it(mixer: Mixer) -> None:
    for seed in range(10):
        call = mixer.reading(seeded(seed))
        told = mixer.tokenizer.decode(call.frames[: call.prompt, 0].tolist())
        weights = batched([call], initial(small(mixer.tokenizer.vocab_size)), Lesson.READING).weights[0]
        chosen = torch.zeros(len(call.frames), dtype=torch.bool)
        for choice in call.choices:
            said = mixer.tokenizer.decode(call.frames[choice.start : choice.end, 0].tolist())
            assert said.rstrip(".") in told
            chosen[choice.start : choice.end] = True
        words = torch.tensor([token not in (PAD, EPAD) for token in call.frames[1:, 0].tolist()])
        assert torch.equal(weights > 0, words & (torch.arange(1, len(call.frames)) >= call.prompt))
        assert (weights[words & ~chosen[1:]] < weights[words & chosen[1:]].max()).all()


def test_what_the_prompt_tells_is_looked_for_where_it_stands(mixer: Mixer) -> None:
    for seed in range(20):
        for call in (mixer.reading(seeded(seed)), mixer.call(seeded(seed), Kind.FACTS)):
            tokens = call.frames[:, 0]
            assert call.sources
            assert all(call.prompt <= at and tokens[at] == tokens[source] for at, source in call.sources)
            kind = mixer.tokenizer.decode(tokens[: call.prompt].tolist()).split("which is ")[1].split(" ", 1)[1]
            desk = next(desk for desk in domain.ALL if kind.startswith(desk.kind))
            assert {domain.intents()[place] for place in call.served} == {*desk.intents, *domain.EVERYWHERE.intents}
            assert kind.startswith(mixer.tokenizer.piece(int(tokens[call.kind])).removeprefix("▁"))
            for choice in call.choices:
                told = [source for at, source in call.sources if choice.start <= at < choice.end]
                if choice.what == "fact" and told:  # two facts may end alike
                    said = mixer.tokenizer.decode(tokens[choice.start : choice.end].tolist())
                    before = mixer.tokenizer.decode(tokens[: told[0]].tolist())
                    assert before.endswith(choice.told.removesuffix(said).strip())


def test_callers_are_half_heard_and_the_agent_misspeaks_in_training(mixer: Mixer) -> None:
    torch.manual_seed(0)
    batch = batched([mixer.call(seeded(seed)) for seed in range(8)], initial(small(mixer.tokenizer.vocab_size)))
    columns, live = batch.columns[:, 1:], batch.live
    near = (torch.arange(CODES)[None, :, None].expand(8, -1, 1) + 1) % CODES
    told = with_slips(columns, live, near, mixer.tokenizer.vocab_size, alone=False, deaf=True)
    text, agents, callers = (told[..., part] != columns[..., part] for part in (0, AGENT, USER))
    assert 0 < text.float().mean() < 0.1
    assert not text[~live].any()
    assert 0.1 < agents.float().mean() < 0.9
    assert 0.1 < callers.float().mean() < 0.9
    unheard = told[..., USER] == CODES
    assert unheard.any()
    assert not unheard.all()


def test_an_untrained_model_is_examined(mixer: Mixer) -> None:
    trainee = trainee_of(mixer)
    known = examine(trainee, questions(mixer, 4), initial(trainee.lm.config))
    assert set(known) == {"answer", "fact", "name", "wants"}
    assert all(0 <= right <= of for right, of in known.values())
    assert trainee.training


def test_codes_are_embedded_as_they_sound() -> None:
    torch.manual_seed(0)
    mimi = Mimi(replace(CODEC, filters=2, dim=16, codebook_dim=4))
    with torch.no_grad():
        for part in (mimi.quantizer.first, mimi.quantizer.rest):
            part.embedding_sum.normal_()
            part.cluster_usage.fill_(1)
    lm = Trainee(replace(small(8), audio_vocab=CODEC.codebook_size), torch.zeros(8), 1).lm
    embed_as(mimi, lm)
    for place in range(16):
        level, part = place % 8, mimi.quantizer.first if place % 8 == 0 else mimi.quantizer.rest
        words = part.codebook(max(0, level - 1))
        apart, embedded = torch.cdist(words, words), torch.cdist(lm.emb[place, :-1], lm.emb[place, :-1])
        torch.testing.assert_close(embedded, apart * (embedded.max() / apart.max()), atol=1e-3, rtol=1e-3)


def test_varied_utterances_keep_to_what_was_said() -> None:
    codes = torch.arange(20).repeat(8, 1).T
    for seed in range(20):
        heard = varied(codes, seeded(seed))[:, 0].tolist()
        assert 16 <= len(heard) <= 24
        assert heard == sorted(heard)


def spoken(call: Call, mixer: Mixer) -> str:
    return mixer.tokenizer.decode(call.frames[call.prompt :, 0].tolist())


def test_calls_follow_from_their_seed_and_greet_as_the_prompt_says(mixer: Mixer) -> None:
    for seed in range(20):
        call, again = (mixer.call(seeded(seed)) for _ in range(2))
        assert torch.equal(call.frames, again.frames)
        told = mixer.tokenizer.decode(call.frames[: call.prompt, 0].tolist())
        company = told.removeprefix("<system> You work for ").split(" which is")[0]
        name = told.split("your name is ")[1].split(".")[0]
        assert f"Thank you for calling {company}. This is {name}." in spoken(call, mixer)
        assert not domain.is_held_out(company, name)


def test_agent_is_silent_where_it_has_no_text_to_say(mixer: Mixer) -> None:
    for seed in range(20):
        call = mixer.call(seeded(seed))
        speaks = (call.frames[:, AGENT] != mixer.silence).any(dim=1)
        said = torch.tensor([token not in (PAD, EPAD) for token in call.frames[:, 0].tolist()])
        # A word of several pieces may end later than its unit of one frame a word.
        assert not said[call.prompt :][~speaks[call.prompt :]].any()


def test_the_moment_to_greet_weighs_where_the_agent_speaks_first(mixer: Mixer) -> None:
    greeted = set()
    for seed in range(20):
        call = mixer.call(seeded(seed))
        heard = [said.start for said in call.heard]
        spoken = [at for at in range(call.prompt, len(call.frames)) if call.frames[at, 0] != PAD]
        waits = spoken[0] < min(heard)
        assert call.greets == (spoken[0] if waits else -1)
        weights = batched([call], initial(small(mixer.tokenizer.vocab_size))).weights[0]
        assert bool(weights[spoken[0] - 1] == GREETS_WEIGHT) == waits
        greeted.add(waits)
    assert greeted == {True, False}


def test_nothing_held_out_is_in_training() -> None:
    for intent in domain.intents():
        assert not set(intent.ways(held_out=True)) & set(intent.ways(held_out=False))


def test_scrambled_words_are_known_and_no_way_to_ask() -> None:
    ways = {way.strip(".?") for intent in domain.intents() for way in intent.asked}
    words = {word.strip(".,?") for way in ways for word in way.split()}
    for seed in range(50):
        text = domain.scrambled(seeded(seed))
        assert set(text.split()) <= words
        assert text not in {intent.asked[-1].strip(".?") for intent in domain.intents()}


def test_pieces_stand_where_words_start(tokenizer: Tokenizer) -> None:
    tokens = stream("This is Mia.", [2, 4, 4], 8, tokenizer)
    pieces = [tokenizer.piece(token) if token not in (PAD, EPAD) else token for token in tokens]
    assert pieces == [PAD, EPAD, "▁This", EPAD, "▁is", "▁Mia", ".", PAD]


def test_words_start_with_their_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"the": ("dh", "ax"), "end": ("eh", "n", "d")}
    monkeypatch.setattr("personaplex.samples.nano.recipe.words._phones", lambda word: known[word])
    heard = [("pau", 0.2), ("dh", 0.3), ("iy", 0.4), ("pau", 0.5), ("eh", 0.6), ("n", 0.7), ("d", 0.8)]
    assert word_starts("the end", heard) == [0.2, 0.5]
