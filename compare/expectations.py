"""Holding an answer to what its row expects of it."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from personaplex.compare.document import words_of
from personaplex.compare.verdicts import Expectation
from personaplex.core.corpus.expect import Expect, pattern, phrase_words
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.measures.figures import figures
from personaplex.core.measures.pooled import Measured

_Stretches = list[tuple[float, float]]

_NOT_MEASURED = "not measured: `personaplex measure` does it, or says why it can't"
_NO_ACTIVITY = "the transcript has no activity: it was made by an older version"


def read_expect(expect: Any, where: str) -> dict[str, Any]:
    """`expect` itself, if it makes sense; else a UsageError that begins with `where`."""
    try:
        Expect.model_validate(expect)
    except ValidationError as error:
        what = f"{where}: expect: {first_faults(field_faults(error))}"
        raise UsageError(what, "mend what the manifest expects and run it again") from error
    found: dict[str, Any] = expect
    return found


def check_expectations(
    expect: Mapping[str, Any], document: Mapping[str, Any], measured: Measured | None = None
) -> tuple[Expectation, ...]:
    """An expectation for each single thing that `expect` asks of a transcript, each phrase of a list its own.

    `measured` is the call's turn-taking, if that was measured. Raises UsageError for an `expect` that makes no sense.
    """
    asked = Expect.model_validate(read_expect(dict(expect), str(document.get("id", "an item"))))
    return (*_checks(asked, document), *_measures(asked, measured))


def _measures(asked: Expect, measured: Measured | None) -> Iterator[Expectation]:
    """Whether each measure lies within its bounds; one without a value can't be said to."""
    found = figures([measured]) if asked.measures and measured is not None else {}
    for name, bounds in asked.measures.items():
        told = f"measures {name} {bounds}"
        figure = found.get(name)
        if measured is None:
            yield Expectation(told, passed=False, detail=_NOT_MEASURED)
        elif figure is None:
            yield Expectation(told, passed=False, detail="no side of the call has this measure")
        elif figure.value is None:
            yield Expectation(told, passed=False, detail="the call has nothing to measure it by")
        else:
            yield Expectation(told, bounds.holds(figure.value), f"{figure.value:g}, of {figure.count}")


def _checks(asked: Expect, document: Mapping[str, Any]) -> Iterator[Expectation]:
    for wanted in asked.must_say:
        place = _place(wanted, document)
        yield Expectation(f'must_say "{wanted}"', place is not None, place or "not said")
    for wanted in asked.must_not_say:
        place = _place(wanted, document)
        yield Expectation(f'must_not_say "{wanted}"', place is None, place or "not said")
    if asked.max_response_delay is not None:
        yield _response_delay(asked.max_response_delay, document)
    if asked.max_overlap is not None:
        yield _overlap(asked.max_overlap, document)
    if asked.min_words is not None:
        count = len(document["text"].split())
        yield Expectation(f"min_words {asked.min_words}", count >= asked.min_words, f"{count} words")


def _place(wanted: str, document: Mapping[str, Any]) -> str | None:
    """`said at 3.20 s` for a phrase or `/expression/` that is said, None for one that isn't."""
    text = document["text"]
    expression = pattern(wanted)
    number = _number_of_phrase(wanted, text) if expression is None else _number_of_match(expression, text)
    if number is None:
        return None
    timed = words_of(document)
    return f"said at {timed[number]['start']:.2f} s" if number < len(timed) else "said"


def _number_of_phrase(wanted: str, text: str) -> int | None:
    """Which word of a text the phrase begins with."""
    phrase = phrase_words(wanted)
    words = [(word, number) for number, whole in enumerate(text.split()) for word in phrase_words(whole)]
    for start in range(len(words) - len(phrase) + 1):
        if [word for word, _ in words[start : start + len(phrase)]] == phrase:
            return words[start][1]
    return None


def _number_of_match(expression: re.Pattern[str], text: str) -> int | None:
    """Which word of a text the expression's first match begins in."""
    match = expression.search(text)
    if match is None:
        return None
    before = text[: match.start()]
    within = bool(before) and not before[-1].isspace()
    return len(before.split()) - within


def _response_delay(limit: float, document: Mapping[str, Any]) -> Expectation:
    """Whether the agent speaks within `limit` seconds of the end of every stretch of the caller's speech.

    It has no longer than until the caller speaks again or the recording ends: a wait that is cut short is no fault.
    """
    name = f"max_response_delay {limit:g} s"
    activity = document.get("activity")
    if activity is None:
        return Expectation(name, passed=False, detail=_NO_ACTIVITY)
    waits = _waits(_stretches(activity["caller"]), _stretches(activity["agent"]), document["input"]["duration"])
    if not waits:
        return Expectation(name, passed=True, detail="the caller doesn't speak")
    wait, end = max(waits, key=lambda found: found[0])
    return Expectation(name, wait <= limit, f"the longest wait is {wait:.2f} s, from {end:.2f} s on")


def _waits(caller: _Stretches, agent: _Stretches, duration: float) -> list[tuple[float, float]]:
    """For each of the caller's stretches, how long the agent was silent after it, and its end."""
    waits = []
    for (_, end), (following, _) in pairwise([*caller, (duration, duration)]):
        answers = (max(start, end) for start, stop in agent if stop > end)
        waits.append((round(max(0.0, min(following, duration, next(answers, duration)) - end), 3), end))
    return waits


def _overlap(limit: float, document: Mapping[str, Any]) -> Expectation:
    """Whether both speak at once for no more than `limit` seconds in all."""
    name = f"max_overlap {limit:g} s"
    activity = document.get("activity")
    if activity is None:
        return Expectation(name, passed=False, detail=_NO_ACTIVITY)
    caller, agent = _stretches(activity["caller"]), _stretches(activity["agent"])
    overlaps = (min(end, stop) - max(start, begin) for start, end in caller for begin, stop in agent)
    both = round(sum(overlap for overlap in overlaps if overlap > 0), 3)
    return Expectation(name, both <= limit, f"both speak for {both:.2f} s")


def _stretches(found: list[list[float]]) -> _Stretches:
    return sorted((start, end) for start, end in found)
