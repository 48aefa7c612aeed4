"""Calls put together from the codes of utterances: a prompt, then both sides of a call in time with each other."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from personaplex.core.config import AGENT, DELAYS, EPAD, PAD, STREAMS, USER
from personaplex.core.engine.session import SILENCE_FRAMES
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.words import stream

LONGEST = 480  # frames of a live call
TURN = 200  # frames that a question and its answer fit in
GREETING_AT = (17, 20)  # frames after which the agent speaks first if nobody has
CALLER_AT = (5, 12)
TOLD_SHARE = 0.8  # of the calls, those whose prompt tells facts
SAMPLE_SHARE = 0.5  # of the others, those whose prompt tells what the samples' does
REPLY = (7, 9)  # frames from the caller's last to the agent's first
PAUSE = (6, 14)
STOP = (6, 7)  # frames that the agent still speaks when the caller breaks in
DRILL_VOICE = 6  # frames
INTENT = 4  # in what is heard: byte pieces, which no caller's word needs, stand for intents
HEARD_AFTER = 2  # frames from the end of a caller's word to where it is told in training


@dataclass(frozen=True)
class Call:
    """frames: int64 [P + L, 17], of which the first P are the prompt. heard: int64 [P + L], the caller's words."""

    frames: Tensor
    heard: Tensor
    prompt: int


class Timeline:
    """The live part, filled from its start."""

    def __init__(self, silence: Tensor, caller: dict[str, Any], phase: int, tokenizer: Tokenizer) -> None:
        line = caller["line"]
        self.murmurs = [said for said in caller["said"] if said["intent"] < 0]
        self.frames = torch.full((LONGEST, STREAMS), PAD)
        self.frames[:, AGENT] = silence
        self.frames[:, USER] = line[(torch.arange(LONGEST) + phase) % len(line)].long()
        self.heard = torch.full((LONGEST,), PAD)
        self._silence = silence
        self._tokenizer = tokenizer

    def agent(self, text: str, unit: dict[str, Any], at: int) -> int:
        """The agent says a unit from frame `at` on; returns the frame behind it."""
        codes = unit["codes"]
        end = min(LONGEST, at + len(codes))
        self.frames[at:end, AGENT] = codes[: end - at].long()
        tokens = torch.tensor(stream(text, [1 + start for start in unit["starts"]], 1 + len(codes), self._tokenizer))
        self.frames[at - 1 : end, 0] = tokens[: end - at + 1]
        return end

    def silence_agent(self, at: int) -> None:
        """The agent says nothing from frame `at` on."""
        self.frames[at:, AGENT] = self._silence
        self.frames[at:, 0] = PAD

    def caller(self, said: dict[str, Any], at: int) -> int:
        """The caller says something from frame `at` on; returns the frame behind it."""
        codes, words = said["codes"], said["text"].split()
        end = min(LONGEST, at + len(codes))
        self.frames[at:end, USER] = codes[: end - at].long()
        ends, letters, total = [], 0, sum(len(word) + 1 for word in words)
        for word in words:
            letters += len(word) + 1
            ends.append(letters * len(codes) // total + HEARD_AFTER)
        told = torch.tensor(stream(said["text"], ends, len(codes) + 8, self._tokenizer))
        told[told == EPAD] = PAD
        room = min(LONGEST, at + len(told)) - at
        self.heard[at : at + room] = told[:room]
        if said["intent"] >= 0:
            self.heard[end + 1 : end + 5] = INTENT + said["intent"]
        return end


class Mixer:
    """Draws calls from units; `held_out` ones have callers, ways to ask and pairs of names that training lacks."""

    def __init__(self, units: dict[str, Any], tokenizer: Tokenizer) -> None:
        self.units = units
        self.tokenizer = tokenizer
        self.silence = torch.tensor(units["silence"])
        self.sine = torch.tensor(units["sine"])

    def call(self, rng: random.Random, *, held_out: bool = False, drill: bool = False) -> Call:
        """A whole call; as a `drill`, one question after the other from the start, and little to prompt."""
        desk = rng.choice(domain.ALL)
        pairs = [(c, n) for c in desk.companies for n in domain.NAMES if domain.is_held_out(c, n) == held_out]
        company, name = rng.choice(pairs)
        is_told = not drill and rng.random() < TOLD_SHARE
        voice = rng.choice(list(self.units["agents"]))
        caller = rng.choice(self.units["held_out" if held_out else "callers"])
        line = Timeline(self.silence, caller, rng.randrange(1000), self.tokenizer)
        answers = [rng.choice(intent.answers) if is_told else intent.answers[0] for intent in domain.intents()]
        greeting = domain.greeting(company, name)
        asked = self._asked(desk, caller, rng, 6 if drill else rng.choice((1, 2, 3)))
        length = self._talk(line, () if drill else greeting, answers, self.units["agents"][voice], asked, rng)
        prompts = self.units["voices"][voice]
        spoken = prompts[0] if rng.random() < 0.6 else rng.choice(prompts)
        facts = [answers[domain.intents().index(intent)] for intent in domain.variable(desk)] if is_told else []
        role = domain.role(desk, company, name, facts)
        if not (drill or is_told) and rng.random() < SAMPLE_SHARE:
            role = domain.in_sample_manifest(desk, company, name)
        prompt = self._prompt(spoken[:DRILL_VOICE] if drill else spoken, role)
        heard = torch.cat([torch.full((len(prompt),), PAD), line.heard[:length]])
        return Call(torch.cat([prompt, line.frames[:length]]), heard, len(prompt))

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
        answers: Sequence[str],
        agent: dict[str, Any],
        asked: list[dict[str, Any]],
        rng: random.Random,
    ) -> int:
        """Fill the timeline; returns its length."""
        waits = bool(greeting) and rng.random() < 0.65
        at = self._say(line, greeting, agent, rng.randint(*GREETING_AT)) if waits else 0
        opening: Sequence[str] = () if waits else greeting[:-1]
        at += rng.randint(*(PAUSE if waits else CALLER_AT)) if greeting else 1
        breaks_in = False
        for number, said in enumerate(asked):
            if at > LONGEST - TURN:
                break
            end = line.caller(said, at)
            if breaks_in:
                line.silence_agent(at + rng.randint(*STOP))
            reply = end + rng.randint(*REPLY) - 2
            at = self._say(line, [*opening, answers[said["intent"]]], agent, reply)
            opening = ()
            breaks_in = number + 1 < len(asked) and rng.random() < 0.2
            if breaks_in:
                at = rng.randint(reply + 8, max(reply + 9, at - 10))
            else:
                if rng.random() < 0.1:
                    line.caller(rng.choice(line.murmurs), reply + 12)
                at += rng.randint(*PAUSE) if rng.random() < 0.9 else rng.randint(30, 60)
        return min(LONGEST, at + rng.randint(8, 20))

    def _asked(self, desk: domain.Desk, caller: dict[str, Any], rng: random.Random, count: int) -> list[dict[str, Any]]:
        """What the caller says: some of what the desk knows, and perhaps goodbye."""
        known = domain.intents()
        wanted = rng.sample([*desk.intents, *desk.intents, domain.HOURS], count)
        wanted += [domain.GOODBYE] if rng.random() < 0.4 else []
        places = [known.index(one) for one in wanted]
        return [next(said for said in caller["said"] if said["intent"] == place) for place in places]

    def _say(self, line: Timeline, texts: Sequence[str], agent: dict[str, Any], at: int) -> int:
        for text in texts:
            at = line.agent(text, agent[text], at) + 1
        return at


def columns(frames: Tensor, initial: Tensor) -> Tensor:
    """Columns int64 [T, 17] of frames [T, 17]: delayed streams one later, `initial` [17] where nothing was before."""
    delays = torch.tensor(DELAYS)
    late = torch.cat([initial[None], frames[:-1]])
    shifted = torch.where(delays == 0, frames, late)
    shifted[0] = initial
    shifted[1] = torch.where(delays == 0, shifted[1], initial)
    return shifted
