"""Words held against words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.compare.alignment import Spoken, align, spoken

WORDS = st.lists(st.sampled_from("abc"), max_size=6)


def timed(words: list[str]) -> list[Spoken]:
    return [Spoken(word, float(place)) for place, word in enumerate(words)]


def edits(one: list[str], other: list[str]) -> int:
    """The fewest words to put in, away or in another's place."""
    row = list(range(len(other) + 1))
    for done, word in enumerate(one, start=1):
        last, row = row, [done]
        for place, candidate in enumerate(other):
            row.append(min(last[place + 1] + 1, row[place] + 1, last[place] + (word != candidate)))
    return row[-1]


@given(one=WORDS, other=WORDS)
def test_it_has_the_fewest_errors_and_pairs_equal_words_in_order(one: list[str], other: list[str]) -> None:
    found = align(timed(one), timed(other))
    assert found.errors == edits(one, other)
    assert len(found.pairs) == len(one) - found.substitutions - found.deletions
    assert len(found.pairs) == len(other) - found.substitutions - found.insertions
    for side in zip(*found.pairs, strict=True):
        places = [word.start for word in side]
        assert places == sorted(set(places))
    assert all(ours.word == theirs.word for ours, theirs in found.pairs)


@pytest.mark.parametrize(
    ("one", "other", "rate"), [("", "", 0), ("a b c d", "a b d", 0.25), ("", "a", 1), ("a b", "", 1), ("a", "b c d", 3)]
)
def test_the_error_rate_is_by_expected_word(one: str, other: str, rate: float) -> None:
    assert align(timed(one.split()), timed(other.split())).error_rate == rate


def test_case_and_punctuation_at_the_ends_of_words_do_not_count(document: Any) -> None:
    found = spoken(document("“Don't — WORRY,” it’s twenty-four … Straße!"))
    assert [word.word for word in found] == ["don't", "worry", "it’s", "twenty-four", "strasse"]
    assert [word.start for word in found] == [1.36, 2.16, 2.56, 2.96, 3.76]
