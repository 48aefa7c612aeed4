"""Both sides of a call in time with each other, and what is learned from each of its frames."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from personaplex.core.config import AGENT, EPAD, PAD, STREAMS, USER
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.words import stream

LONGEST = 480  # frames of a live call
MARKS = ".,?:"
SPEEDS = (0.85, 1.2)
VARIED_SHARE = 0.6
BREAK = (1, 3)  # frames in which the line holds its sound


@dataclass(frozen=True)
class Heard:
    """What a caller says in the frames from `start` to `end`: its words' pieces, and its intent or -1."""

    start: int
    end: int
    words: tuple[int, ...]
    intent: int


@dataclass(frozen=True)
class Choice:
    """Where the agent has to choose `what` it says: an "answer" (a sentence), a "name" or a "fact".

    `told` are the words with which the prompt tells it, of which the last `said` are what it says.
    """

    what: str
    start: int
    end: int
    told: str = ""
    said: int = 0


@dataclass(frozen=True)
class Call:
    """frames: int64 [P + L, 17], of which the first P are the prompt.

    sources: of frames in which the agent says what the prompt tells, the prompt's frames that tell it.
    kind: the prompt's frame that tells what kind of company it is, or -1. served: the intents that it has answers for.
    greets: the frame in which the agent, unasked, begins to speak, or -1.
    """

    frames: Tensor
    prompt: int
    heard: tuple[Heard, ...] = ()
    choices: tuple[Choice, ...] = ()
    sources: tuple[tuple[int, int], ...] = ()
    kind: int = -1
    served: tuple[int, ...] = ()
    greets: int = -1


class Timeline:
    """The live part, filled from its start."""

    def __init__(self, silence: Tensor, caller: dict[str, Any], phase: int, tokenizer: Tokenizer) -> None:
        line = caller["line"]
        self.murmurs = [said for said in caller["said"] if said["intent"] == domain.MURMUR]
        self.frames = torch.full((LONGEST, STREAMS), PAD)
        self.frames[:, AGENT] = silence
        self.frames[:, USER] = line[(torch.arange(LONGEST) + phase) % len(line)].long()
        self.heard: list[Heard] = []
        self.choices: list[Choice] = []
        self._silence = silence
        self._tokenizer = tokenizer
        self._before = ""

    def agent(self, text: str, unit: dict[str, Any], at: int, choice: str = "") -> int:
        """The agent says a unit from frame `at` on; returns the frame behind it."""
        codes = unit["codes"]
        end = min(LONGEST, at + len(codes))
        self.frames[at:end, AGENT] = codes[: end - at].long()
        tokens = torch.tensor(stream(text, [1 + start for start in unit["starts"]], 1 + len(codes), self._tokenizer))
        self.frames[at - 1 : end, 0] = tokens[: end - at + 1]
        if choice:
            told = f"{self._before} {text}" if choice == "fact" else text
            self.choices.append(Choice(choice, at, end, told, len(pieces(text, self._tokenizer))))
        self._before = text
        return end

    def silence_agent(self, at: int) -> None:
        """The agent says nothing from frame `at` on."""
        self.frames[at:, AGENT] = self._silence
        self.frames[at:, 0] = PAD

    def caller(self, said: dict[str, Any], at: int, rng: random.Random | None = None) -> int:
        """The caller says something from frame `at` on, varied by `rng`; returns the frame behind it."""
        codes = said["codes"] if rng is None else varied(said["codes"], rng)
        end = min(LONGEST, at + len(codes))
        self.frames[at:end, USER] = codes[: end - at].long()
        self.heard.append(Heard(at, end, pieces(said["text"], self._tokenizer), said["intent"]))
        return end

    def behind(self, prompt: Tensor, length: int) -> Call:
        """The call of a prompt [P, 17] and the first `length` frames."""
        first = len(prompt)
        heard = [replace(it, start=it.start + first, end=it.end + first) for it in self.heard if it.end <= length]
        said = (choice for choice in self.choices if choice.start < length and self.frames[choice.start, 0] != PAD)
        choices = [replace(it, start=it.start + first, end=min(it.end, length) + first) for it in said]
        frames = torch.cat([prompt, self.frames[:length]])
        sources = tuple(self._sources(frames, first, choices))
        return Call(frames, first, tuple(heard), tuple(choices), sources, greets=self._greets(frames, first, heard))

    def _greets(self, frames: Tensor, prompt: int, heard: Sequence[Heard]) -> int:
        spoken = (frames[prompt:, 0] != PAD).nonzero()
        first = prompt + int(spoken[0]) if len(spoken) else len(frames)
        return first if first < min((said.start for said in heard), default=0) else -1

    def _sources(self, frames: Tensor, prompt: int, choices: Sequence[Choice]) -> Iterator[tuple[int, int]]:
        words, places = words_of(frames[:prompt, 0], self._tokenizer)
        for choice in choices:
            told = pieces(choice.told, self._tokenizer)
            first = found(told, words)
            if choice.what != "answer" and first >= 0:
                _, said = words_of(frames[choice.start : choice.end, 0], self._tokenizer)
                begin = first + len(told) - choice.said
                pairs = zip((choice.start + at for at in said[: choice.said]), places[begin:], strict=False)
                yield from ((at, source) for at, source in pairs if frames[at, 0] == frames[source, 0])


def words_of(text: Tensor, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The pieces in a text stream that are no marks, and where they stand."""
    unspoken = _unspoken(tokenizer)
    at = [place for place, token in enumerate(text.tolist()) if token not in unspoken]
    return text[at].tolist(), at


@cache
def _unspoken(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset({PAD, EPAD, *(token for token in range(tokenizer.vocab_size) if tokenizer.piece(token) in MARKS)})


def found(sought: Sequence[int], words: Sequence[int]) -> int:
    """Where `sought` begins in `words`, or -1."""
    starts = range(len(words) - len(sought) + 1)
    return next((at for at in starts if tuple(words[at : at + len(sought)]) == tuple(sought)), -1)


def varied(codes: Tensor, rng: random.Random) -> Tensor:
    """An utterance's codes said faster or slower, and broken for a moment: codes can't be changed in a finer way."""
    speed = rng.uniform(*SPEEDS) if rng.random() < VARIED_SHARE else 1.0
    kept = (torch.arange(round(len(codes) / speed)) * speed).long().clamp(max=len(codes) - 1)
    if rng.random() < VARIED_SHARE:
        gap, at = rng.randint(*BREAK), rng.randrange(len(kept))
        kept[at : at + gap] = kept[max(0, at - 1)]
    return codes[kept]


def pieces(text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The pieces of a text's words, without marks."""
    return tuple(piece for word in text.split() for piece in tokenizer.encode(word.strip(MARKS)))
