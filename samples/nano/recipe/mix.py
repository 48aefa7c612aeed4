"""Calls put together from the codes of utterances: a prompt, then both sides of a call in time with each other."""

import random
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from personaplex.core.config import AGENT, DELAYS, PAD, STREAMS, USER
from personaplex.core.engine.session import SILENCE_FRAMES
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.timeline import LONGEST, Call, Timeline, found, pieces, words_of

TURN = 200  # frames that a question and its answer fit in
GREETING_AT = (18, 18)  # frames after which the agent speaks first if nobody has
CALLER_AT = (5, 12)
TOLD_SHARE = 0.8  # of the calls, those whose prompt tells facts
SAMPLE_SHARE = 0.5  # of the others, those whose prompt tells what the samples' does
REPLY = (7, 8)  # frames from the caller's last to the agent's first
PAUSE = (6, 14)
STOP = (6, 7)  # frames that the agent still speaks when the caller breaks in
DRILL_VOICE = 6  # frames
GREETING = ("", "name", "", "name", "")  # what is chosen where the agent says the parts of a greeting
ANSWER = ("answer", "fact")
SCRAMBLED_SHARE = 0.5  # of what is heard alone
ALONE_AT = (2, 12)  # frames before an utterance that is heard alone
ALONE_AFTER = 8


class Kind(Enum):
    """What a call is made of: questions one after the other, a greeting and a question for a fact, or all of it."""

    QUESTIONS = "questions"
    FACTS = "facts"
    WHOLE = "whole"


class Mixer:
    """Draws calls from units; `held_out` ones have callers, ways to ask and pairs of names that training lacks."""

    def __init__(self, units: dict[str, Any], tokenizer: Tokenizer) -> None:
        self.units = units
        self.tokenizer = tokenizer
        self.silence = torch.tensor(units["silence"])
        self.sine = torch.tensor(units["sine"])

    def call(self, rng: random.Random, kind: Kind = Kind.WHOLE, *, held_out: bool = False) -> Call:
        """A whole call, or one of fewer things to learn at a time."""
        desk = rng.choice(domain.ALL)
        pairs = [(c, n) for c in desk.companies for n in domain.NAMES if domain.is_held_out(c, n) == held_out]
        company, name = rng.choice(pairs)
        is_told = kind is Kind.FACTS or (kind is Kind.WHOLE and rng.random() < TOLD_SHARE)
        voice = rng.choice(list(self.units["agents"]))
        caller = rng.choice(self.units["held_out" if held_out else "callers"])
        line = Timeline(self.silence, caller, rng.randrange(1000), self.tokenizer)
        answers = [rng.choice(intent.spoken) if is_told else intent.spoken[0] for intent in domain.intents()]
        greeting = () if kind is Kind.QUESTIONS else domain.greeting(company, name)
        asked = self._asked(kind, desk, caller, rng)
        length = self._talk(line, greeting, answers, self.units["agents"][voice], asked, rng, varies=not held_out)
        prompts = self.units["voices"][voice]
        spoken = prompts[0] if rng.random() < 0.6 else rng.choice(prompts)
        facts = [" ".join(answers[domain.intents().index(intent)]) for intent in domain.variable(desk)]
        role = domain.role(desk, company, name, facts if is_told else ())
        if kind is Kind.WHOLE and not is_told and rng.random() < SAMPLE_SHARE:
            role = domain.in_sample_manifest(desk, company, name)
        prompt = self._prompt(spoken if kind is Kind.WHOLE else spoken[:DRILL_VOICE], role)
        return self._of_kind(line.behind(prompt, length), desk)

    def utterance(self, rng: random.Random, *, held_out: bool = False) -> Call:
        """Something a caller says alone, without a prompt and without an answer."""
        caller = rng.choice(self.units["held_out" if held_out else "callers"])
        line = Timeline(self.silence, caller, rng.randrange(1000), self.tokenizer)
        scrambled = [said for said in caller["said"] if said["intent"] == domain.SCRAMBLED]
        said = scrambled if scrambled and rng.random() < SCRAMBLED_SHARE else caller["said"]
        end = line.caller(rng.choice(said), rng.randint(*ALONE_AT), None if held_out else rng)
        return line.behind(line.frames[:0], end + ALONE_AFTER)

    def reading(self, rng: random.Random) -> Call:
        """A prompt and what the agent tells from it, in any order: names, and facts of any desk."""
        desk = rng.choice(domain.ALL)
        pairs = [(c, n) for c in desk.companies for n in domain.NAMES if not domain.is_held_out(c, n)]
        company, name = rng.choice(pairs)
        asked = rng.sample([one for one in domain.intents() if len(one.answers) > 1], 3)
        told = [rng.choice(intent.spoken) for intent in asked]
        role = domain.role(desk, company, name, [" ".join(fact) for fact in told])
        opening, named, introduced, called, _ = domain.greeting(company, name)
        parts = [(opening, named, "name"), (introduced, called, "name"), *((*fact, "fact") for fact in told)]
        voice = rng.choice(list(self.units["agents"]))
        agent = self.units["agents"][voice]
        line = Timeline(self.silence, rng.choice(self.units["callers"]), rng.randrange(1000), self.tokenizer)
        at = rng.randint(1, 8)
        for before, what, choice in rng.sample(parts, len(parts)):
            at = line.agent(before, agent[before], at) + 1
            at = line.agent(what, agent[what], at, choice) + rng.randint(2, 8)
        prompt = self._prompt(rng.choice(self.units["voices"][voice])[:DRILL_VOICE], role)
        return self._of_kind(line.behind(prompt, min(at, LONGEST)), desk)

    def _of_kind(self, call: Call, desk: domain.Desk) -> Call:
        """The call with the frame of its prompt that tells the desk's kind, and what is asked of such a desk."""
        words, places = words_of(call.frames[: call.prompt, 0], self.tokenizer)
        known = [*desk.intents, *domain.EVERYWHERE.intents]
        served = tuple(place for place, intent in enumerate(domain.intents()) if intent in known)
        return replace(call, kind=places[found(pieces(desk.kind, self.tokenizer), words)], served=served)

    def _prompt(self, voice: Tensor, role: str) -> Tensor:
        """The forced frames of a prompt, int64 [P, 17]."""
        tokens = torch.tensor(self.tokenizer.prompt_ids(role))
        script = len(tokens) + 2 * SILENCE_FRAMES
        frames = torch.full((len(voice) + script, STREAMS), PAD)
        frames[:, USER] = self.sine
        frames[: len(voice), AGENT] = voice.long()
        frames[len(voice) :, AGENT] = self.silence
        frames[len(voice) + SILENCE_FRAMES : len(frames) - SILENCE_FRAMES, 0] = tokens
        return frames

    def _talk(
        self,
        line: Timeline,
        greeting: Sequence[str],
        answers: Sequence[Sequence[str]],
        agent: dict[str, Any],
        asked: list[dict[str, Any]],
        rng: random.Random,
        *,
        varies: bool,
    ) -> int:
        """Fill the timeline; returns its length."""
        waits = bool(greeting) and rng.random() < 0.65
        at = self._say(line, greeting, agent, rng.randint(*GREETING_AT), GREETING) if waits else 0
        opening: Sequence[str] = () if waits else greeting[:-1]
        at += rng.randint(*(PAUSE if waits else CALLER_AT)) if greeting else 1
        breaks_in = False
        for number, said in enumerate(asked):
            if at > LONGEST - TURN:
                break
            end = line.caller(said, at, rng if varies else None)
            if breaks_in:
                line.silence_agent(at + rng.randint(*STOP))
            reply = end + rng.randint(*REPLY) - 2
            answer = answers[said["intent"]]
            after = self._say(line, opening, agent, reply, GREETING)
            at = self._say(line, answer, agent, after, ANSWER)
            opening = ()
            breaks_in = number + 1 < len(asked) and rng.random() < 0.2
            if breaks_in:
                at = rng.randint(reply + 8, max(reply + 9, at - 10))
            else:
                if rng.random() < 0.1:
                    line.caller(rng.choice(line.murmurs), reply + 12)
                at += rng.randint(*PAUSE) if rng.random() < 0.9 else rng.randint(30, 60)
        return min(LONGEST, at + rng.randint(8, 20))

    def _asked(self, kind: Kind, desk: domain.Desk, caller: dict[str, Any], rng: random.Random) -> list[dict[str, Any]]:
        """What the caller says: some of what the desk knows, and perhaps goodbye."""
        known = domain.intents()
        if kind is Kind.FACTS:
            wanted = rng.sample(domain.variable(desk), 1)
        else:
            count = 6 if kind is Kind.QUESTIONS else rng.choice((1, 2, 3))
            often = [*desk.intents, *desk.intents, domain.HOURS]
            # A drill is cut where it gets too long: what comes last alone would hardly be learned.
            wanted = rng.sample([*often, domain.HOURS, domain.GOODBYE] if kind is Kind.QUESTIONS else often, count)
            wanted += [domain.GOODBYE] if rng.random() < 0.5 else []
        places = [known.index(one) for one in wanted]
        return [next(said for said in caller["said"] if said["intent"] == place) for place in places]

    def _say(self, line: Timeline, texts: Sequence[str], agent: dict[str, Any], at: int, choices: Sequence[str]) -> int:
        for text, choice in zip(texts, choices, strict=False):
            at = line.agent(text, agent[text], at, choice) + 1
        return at


def columns(frames: Tensor, initial: Tensor) -> Tensor:
    """Columns int64 [T, 17] of frames [T, 17]: delayed streams one later, `initial` [17] where nothing was before."""
    delays = torch.tensor(DELAYS)
    late = torch.cat([initial[None], frames[:-1]])
    shifted = torch.where(delays == 0, frames, late)
    shifted[0] = initial
    shifted[1] = torch.where(delays == 0, shifted[1], initial)
    return shifted
