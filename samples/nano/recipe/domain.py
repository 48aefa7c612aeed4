"""What the small model knows: eight companies' desks, what callers ask of them, and what it answers.

calls.txt holds the texts: a desk and companies of that kind, below it what the agent answers, below that the ways to
ask for it. Of answers that [differ/vary] the prompt tells which is right. The last way to ask is kept out of training,
as are the pairs of company and name that `is_held_out` tells.

What the prompt decides is rendered apart from what is said before it: else the sound of the first word would tell a
name or a price before its text does, and the model would draw one by chance in place of reading the prompt.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from personaplex.samples.catalog import manifest_path

NAMES = (
    *("Mia", "Tom", "Clara", "Sam", "Ada", "Ben", "Ines", "Hugh", "Anna", "Nora"),
    *("Peter", "Laura", "David", "Emma", "Paul", "Helen", "Kevin", "Alice", "Daniel", "Grace"),
)

CALLS = Path(__file__).parent / "calls.txt"

FIRST_OPENERS = (
    *("", "", "", "Hi.", "Hello.", "Good morning.", "Good evening.", "Hi there.", "Yeah, hi.", "Yes, hello.", "Um."),
    *("Hello, this is Emma Brown.", "Hi, this is Paul Hill.", "My name is Grace Wood.", "Sorry, it is loud here."),
)
LATER_OPENERS = ("", "", "", "Okay.", "Thanks.", "Thank you.", "All right.", "And.", "So.", "Um.", "One moment.")
MURMURS = ("Mhm.", "Okay.", "Yes.")
MURMUR, SCRAMBLED = -1, -2  # in the place of an intent
HELP = "How can I help you?"


@dataclass(frozen=True)
class Intent:
    """What a caller wants: ways to ask for it, and the answers, of which the first is given unless the prompt tells.

    An answer is one utterance, or two where its end varies.
    """

    spoken: tuple[tuple[str, ...], ...]
    asked: tuple[str, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers as they are written."""
        return tuple(" ".join(parts) for parts in self.spoken)

    def ways(self, *, held_out: bool) -> tuple[str, ...]:
        """The ways to ask that are kept out of training, or the others."""
        return self.asked[-1:] if held_out else self.asked[:-1]


@dataclass(frozen=True)
class Desk:
    """A kind of company, some of that kind, and what is asked of them alone."""

    kind: str
    companies: tuple[str, ...]
    intents: tuple[Intent, ...]


def _variants(answer: str) -> tuple[tuple[str, ...], ...]:
    before, *rest = re.split(r"[\[\]]", answer)
    return tuple((before.strip(), variant + rest[1]) for variant in rest[0].split("/")) if rest else ((answer,),)


def _desks() -> Iterator[Desk]:
    for block in CALLS.read_text(encoding="utf-8").split("\n\n"):
        first, *lines = block.rstrip("\n").split("\n")
        kind, companies = first.split(":")
        asked: list[list[str]] = []
        for line in lines:
            if line.startswith("    "):
                asked[-1].append(line.strip())
            else:
                asked.append([line.strip()])
        intents = tuple(Intent(_variants(answer), tuple(ways)) for answer, *ways in asked)
        yield Desk(kind, tuple(companies.strip().split(", ")), intents)


*ALL, EVERYWHERE = _desks()
HOURS, GOODBYE = EVERYWHERE.intents


def is_held_out(company: str, name: str) -> bool:
    """Whether no call in training has this pair: one name of each company."""
    places = [place for desk in ALL for place in desk.companies]
    return (places.index(company) + NAMES.index(name)) % len(NAMES) == 0


def role(desk: Desk, company: str, name: str, facts: Sequence[str] = ()) -> str:
    """The text prompt."""
    article = "an" if desk.kind[0] in "aeiou" else "a"
    told = f"You work for {company} which is {article} {desk.kind} and your name is {name}."
    return f"{told} Information: {' '.join(facts)}" if facts else told


def in_sample_manifest(desk: Desk, company: str, name: str) -> str:
    """The text prompt with what the samples' manifest tells of such a desk, which is less simply said."""
    rows = manifest_path().read_text(encoding="utf-8").splitlines()
    prompts = [json.loads(row)["text_prompt"] for row in rows]
    facts = next(prompt for prompt in prompts if desk.kind in prompt).partition("Information: ")[2]
    return role(desk, company, name, [facts])


def variable(desk: Desk) -> list[Intent]:
    """The intents of a desk whose answers the prompt tells."""
    return [intent for intent in (*desk.intents, HOURS) if len(intent.answers) > 1]


def greeting(company: str, name: str) -> tuple[str, ...]:
    """What the agent says first, utterance by utterance."""
    return "Thank you for calling", f"{company}.", "This is", f"{name}.", HELP


def utterances() -> list[str]:
    """Everything the agent can say."""
    places = [place for desk in ALL for place in desk.companies]
    said = [part for place in places for part in greeting(place, NAMES[0])]
    said += [part for name in NAMES for part in greeting(places[0], name)]
    said += [part for intent in intents() for parts in intent.spoken for part in parts]
    return list(dict.fromkeys(said))


def scrambled(rng: random.Random) -> str:
    """The start of a question, a word and the end of another question: to be heard, words can't be guessed from others.

    The word may be one of the ways to ask that are kept out of training; none of those is said as a whole.
    """
    before, after = (_words(rng.choice(rng.choice(intents()).ways(held_out=False))) for _ in range(2))
    word = rng.choice(sorted({word for intent in intents() for way in intent.asked for word in _words(way)}))
    return " ".join([*before[: rng.randrange(len(before))], word, *after[rng.randint(1, len(after)) :]])


def _words(text: str) -> list[str]:
    return [word.strip(".,?") for word in text.split()]


def intents() -> list[Intent]:
    """All of them."""
    return [*(intent for desk in ALL for intent in desk.intents), HOURS, GOODBYE]
