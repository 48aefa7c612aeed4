"""What the small model knows: eight companies' desks, what callers ask of them, and what it answers.

calls.txt holds the texts: a desk and companies of that kind, below it what the agent answers, below that the ways to
ask for it. The last way to ask is kept out of training, as are the pairs of company and name that `is_held_out` tells.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAMES = (
    *("Mia", "Tom", "Clara", "Sam", "Ada", "Ben", "Ines", "Hugh", "Anna", "Nora"),
    *("Peter", "Laura", "David", "Emma", "Paul", "Helen", "Kevin", "Alice", "Daniel", "Grace"),
)

CALLS = Path(__file__).parent / "calls.txt"

FIRST_OPENERS = ("", "", "Hi.", "Hello.", "Good morning.", "Yes, hello.", "Um.")
LATER_OPENERS = ("", "", "Okay.", "Thanks.", "All right.", "And.", "Um.")
MURMURS = ("Mhm.", "Okay.", "Yes.")
HELP = "How can I help you?"


@dataclass(frozen=True)
class Intent:
    """What a caller wants: ways to ask for it, and the answer."""

    answer: str
    asked: tuple[str, ...]

    def ways(self, *, held_out: bool) -> tuple[str, ...]:
        """The ways to ask that are kept out of training, or the others."""
        return self.asked[-1:] if held_out else self.asked[:-1]


@dataclass(frozen=True)
class Desk:
    """A kind of company, some of that kind, and what is asked of them alone."""

    kind: str
    companies: tuple[str, ...]
    intents: tuple[Intent, ...]


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
        intents = tuple(Intent(answer, tuple(ways)) for answer, *ways in asked)
        yield Desk(kind, tuple(companies.strip().split(", ")), intents)


*ALL, EVERYWHERE = _desks()
HOURS, GOODBYE = EVERYWHERE.intents


def is_held_out(company: str, name: str) -> bool:
    """Whether no call in training has this pair: one in five."""
    places = [place for desk in ALL for place in desk.companies]
    return (places.index(company) + NAMES.index(name)) % 5 == 0


def role(desk: Desk, company: str, name: str) -> str:
    """The text prompt."""
    return f"You work for {company} which is a {desk.kind} and your name is {name}."


def greeting(company: str, name: str) -> tuple[str, ...]:
    """What the agent says first, utterance by utterance."""
    return f"Thank you for calling {company}.", f"This is {name}.", HELP


def utterances() -> list[str]:
    """Everything the agent can say."""
    places = [greeting(place, NAMES[0])[0] for desk in ALL for place in desk.companies]
    names = [greeting("", name)[1] for name in NAMES]
    answers = [intent.answer for intent in intents()]
    return [*places, *names, HELP, *answers]


def intents() -> list[Intent]:
    """All of them."""
    return [*(intent for desk in ALL for intent in desk.intents), HOURS, GOODBYE]
