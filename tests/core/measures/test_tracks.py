import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.measures.tracks import mask_of, spans, turns_of, units_of, words_in
from tests.core.measures.masks import mask


def test_units_are_split_at_200_ms_and_clicks_are_none() -> None:
    heard = mask((1, 1.5), (1.68, 2), (2.2, 2.6), (4, 4.08), (5, 5.1), length=6)
    assert units_of(heard).tolist() == [[50, 100], [110, 130], [250, 255]]


def test_a_turn_ends_at_a_second_of_silence() -> None:
    units = units_of(mask((0, 1), (1.98, 3), (4, 5), length=6))
    assert turns_of(units, units_of(mask(length=6))).tolist() == [[0, 150], [200, 250]]


def test_a_turn_ends_where_the_other_begins_in_its_pause() -> None:
    units = units_of(mask((0, 1), (1.5, 3), length=6))
    for other, turns in (
        ((1.2, 1.4), 2),
        ((1, 1.4), 2),
        ((0.9, 1.4), 1),  # it began before the pause
        ((1.5, 1.9), 1),  # it begins with what follows
    ):
        assert len(turns_of(units, units_of(mask(other, length=6)))) == turns


def test_a_word_belongs_to_the_nearest_sound_within_half_a_second() -> None:
    found = spans(mask((1, 2), (3, 4), length=6))
    words = [(0.4, 0.5), (0.5, 0.7), (1.1, 1.3), (2.3, 2.5), (2.5, 2.7), (2.45, 2.55), (4.4, 4.8)]
    assert words_in(words, found).tolist() == [3, 2]  # the one in the middle goes to what follows: text leads sound
    assert words_in([], found).tolist() == [0, 0]
    assert words_in(words, found[:0]).tolist() == []


@given(st.lists(st.booleans(), max_size=60))
def test_spans_and_masks_are_the_same(heard: list[bool]) -> None:
    given_ = np.array(heard, bool)
    assert mask_of(spans(given_), len(given_)).tolist() == heard
