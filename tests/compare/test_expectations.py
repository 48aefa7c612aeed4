"""What a row expects of an answer, and whether the answer keeps to it."""

import re
from typing import Any

import pytest

from personaplex.compare.expectations import check_expectations
from personaplex.compare.verdicts import Expectation
from personaplex.core.errors import UsageError
from personaplex.core.measures.events import Event, Kind
from personaplex.core.measures.pooled import Measured


def said(text: str, wanted: str, document: Any) -> bool:
    (found,) = check_expectations({"must_say": wanted}, document(text))
    (opposite,) = check_expectations({"must_not_say": [wanted]}, document(text))
    assert found.passed is not opposite.passed
    return found.passed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Your REFUND, is on its way.", "refund is"),
        ("It costs $20.", "20"),
        ("Twenty-four   hours", "twenty four hours"),
        ("Don’t worry", "don't worry"),
        ("I am here - always", "here always"),
        ("Straße", "STRASSE"),
        ("a a b", "a b"),
        ("It costs $20.", r"/costs \$\d+/"),
        ("Refunds", "/refund/"),
        ("a/b", "/a/b/"),
    ],
)
def test_phrases_that_are_said(text: str, wanted: str, document: Any) -> None:
    assert said(text, wanted, document)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Refunds", "refund"), ("your way", "way your"), ("", "a"), ("a", "a b"), ("I am", "/^am/"), ("/x", "/x//")],
)
def test_phrases_that_are_not_said(text: str, wanted: str, document: Any) -> None:
    assert not said(text, wanted, document)


def test_each_phrase_is_an_expectation_with_its_second(document: Any) -> None:
    asked = {"must_say": ["calling", "refund"], "must_not_say": ["/ANKS f/", "no"], "min_words": 3}
    assert check_expectations(asked, document()) == (
        Expectation('must_say "calling"', True, "said at 2.16 s"),
        Expectation('must_say "refund"', False, "not said"),
        Expectation('must_not_say "/ANKS f/"', False, "said at 1.36 s"),
        Expectation('must_not_say "no"', True, "not said"),
        Expectation("min_words 3", True, "3 words"),
    )


def test_nothing_asked_is_nothing_checked(document: Any) -> None:
    assert check_expectations({}, document()) == ()


def test_too_few_words(document: Any) -> None:
    assert check_expectations({"min_words": 4}, document()) == (Expectation("min_words 4", False, "3 words"),)
    assert check_expectations({"min_words": 1}, document(""))[0].passed is False
    assert check_expectations({"min_words": 0}, document(""))[0].passed


@pytest.mark.parametrize(
    ("caller", "agent", "passes", "told"),
    [
        ([[0, 1]], [[2, 3]], True, "the longest wait is 1.00 s, from 1.00 s on"),
        ([[0, 1]], [[3.5, 4]], False, "the longest wait is 2.50 s, from 1.00 s on"),
        ([[0, 1]], [[3, 4]], True, "the longest wait is 2.00 s, from 1.00 s on"),
        ([[0, 1]], [[0.5, 1.5]], True, "the longest wait is 0.00 s, from 1.00 s on"),
        ([[0, 1]], [[0.5, 1]], False, "the longest wait is 9.00 s, from 1.00 s on"),
        ([[0, 1]], [], False, "the longest wait is 9.00 s, from 1.00 s on"),
        ([[0, 1], [2, 3]], [[4, 5]], True, "the longest wait is 1.00 s, from 1.00 s on"),
        ([[0, 1], [6, 7]], [[8, 9]], False, "the longest wait is 5.00 s, from 1.00 s on"),
        ([[0, 1], [3, 4]], [[1.5, 2], [6.5, 7]], False, "the longest wait is 2.50 s, from 4.00 s on"),
        ([[8, 9]], [], True, "the longest wait is 1.00 s, from 9.00 s on"),
        ([[8, 10.08]], [], True, "the longest wait is 0.00 s, from 10.08 s on"),
        ([], [], True, "the caller doesn't speak"),
    ],
)
def test_the_agent_answers_in_time(caller: Any, agent: Any, passes: bool, told: str, document: Any) -> None:
    made = document(activity={"caller": caller, "agent": agent}, input={"duration": 10.0})
    expected = Expectation("max_response_delay 2 s", passes, told)
    assert check_expectations({"max_response_delay": 2}, made) == (expected,)


@pytest.mark.parametrize(
    ("caller", "agent", "passes", "told"),
    [
        ([[0, 2], [4, 6]], [[1.5, 2.5], [5.5, 8]], True, "both speak for 1.00 s"),
        ([[0, 2], [4, 6]], [[1.5, 5]], False, "both speak for 1.50 s"),
        ([[0, 2]], [[2, 5]], True, "both speak for 0.00 s"),
        ([], [[2, 5]], True, "both speak for 0.00 s"),
    ],
)
def test_the_agent_does_not_talk_over_the_caller(
    caller: Any, agent: Any, passes: bool, told: str, document: Any
) -> None:
    made = document(activity={"caller": caller, "agent": agent})
    assert check_expectations({"max_overlap": 1}, made) == (Expectation("max_overlap 1 s", passes, told),)


def test_an_older_transcript_can_not_be_held_to_turns(document: Any) -> None:
    asked = {"max_overlap": 1, "max_response_delay": 0.5}
    found = check_expectations(asked, document(activity=None))
    assert [(one.passed, one.detail) for one in found] == [
        (False, "the transcript has no activity: it was made by an older version")
    ] * 2


def test_what_makes_no_sense_is_an_error(document: Any) -> None:
    with pytest.raises(UsageError, match=r"^call: expect: max_overlap: .*; min_words: "):
        check_expectations({"max_overlap": -1, "min_words": -1}, document())


def test_measures_are_held_to_their_bounds(document: Any) -> None:
    measured = Measured(60.0, ("caller", "agent"), ("agent",), {"caller": None, "agent": 3}, [Event(Kind.gap, 1, 2)])
    asked = {
        "gaps_per_minute": {"min": 1, "max": 2},
        "gap_seconds_per_minute": {"max": 0.5},
        "yield_rate.agent": {"min": 0.5},
        "yield_rate.b": {"min": 0.5},
    }
    assert check_expectations({"measures": asked}, document(), measured) == (
        Expectation("measures gaps_per_minute min 1 max 2", True, "1, of 1"),
        Expectation("measures gap_seconds_per_minute max 0.5", False, "1, of 1"),
        Expectation("measures yield_rate.agent min 0.5", False, "the call has nothing to measure it by"),
        Expectation("measures yield_rate.b min 0.5", False, "no side of the call has this measure"),
    )


def test_measures_of_a_run_that_was_not_measured_are_not_met(document: Any) -> None:
    (found,) = check_expectations({"measures": {"gaps_per_minute": {"max": 9}}}, document())
    assert (found.passed, found.detail) == (False, "not measured: `personaplex measure` does it, or says why it can't")


@pytest.mark.parametrize(
    ("measures", "told"),
    [
        ({"gaps": {"max": 1}}, 'there is no measure "gaps"'),
        ({"yield_rate": {"max": 1}}, 'there is no measure "yield_rate"; yield_rate.agent is one'),
        ({"gaps_per_minute": {}}, "gives neither min nor max"),
        ({"gaps_per_minute": {"min": 2, "max": 1}}, "min 2 is over max 1"),
        ({"gaps_per_minute": {"least": 1}}, "Extra inputs are not permitted"),
        ({"gaps_per_minute": 3}, "gaps_per_minute"),
    ],
)
def test_measures_that_make_no_sense_are_told(document: Any, measures: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        check_expectations({"measures": measures}, document())
