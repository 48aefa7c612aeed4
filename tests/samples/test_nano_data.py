"""The recipe's sentences: equal seeds give equal data, what is held out stays out, phones lie where they are heard."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from personaplex.samples.nano.recipe.codec_train import Sentences
from personaplex.samples.nano.recipe.render import LABEL_SAMPLES, PHONES, Spoken, render, write
from personaplex.samples.nano.recipe.texts import drawn, spelt

needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")


def test_texts_follow_from_the_seed_and_leave_out_what_is_held_out() -> None:
    texts = drawn(50, 1)
    assert texts == drawn(50, 1)
    assert texts != drawn(50, 2)
    assert not set(drawn(50, 1, texts)) & set(texts)


@pytest.mark.parametrize(
    ("number", "words"),
    [(7, "seven"), (40, "forty"), (83, "eighty three"), (300, "three hundred"), (215, "two hundred and fifteen")],
)
def test_numbers_are_spelt(number: int, words: str) -> None:
    assert spelt(number) == words


def test_labels_change_where_phones_end() -> None:
    spoken = Spoken("a", "kal16", np.zeros(10 * LABEL_SAMPLES + 1, np.float32), [("pau", 0.06), ("ay", 0.16)])
    assert [PHONES[label] for label in spoken.labels()] == ["pau"] * 3 + ["ay"] * 5 + ["pau"] * 3


@needs_flite
def test_rendering_is_repeatable_and_quiet_where_it_pauses(tmp_path: Path) -> None:
    texts = drawn(3, 5)
    first, again = render(texts, 5, "high"), render(texts, 5, "high")
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.samples, b.samples)
        pauses = np.repeat(a.labels() == PHONES.index("pau"), LABEL_SAMPLES)[: len(a.samples)]
        assert np.abs(a.samples[pauses]).mean() < 0.5 * np.abs(a.samples[~pauses]).mean()
    write(first, tmp_path / "data")
    read = Sentences.read(tmp_path / "data")
    weights = np.full(3, 1 / 3)
    sound, labels = read.crops(2, 4, weights, np.random.default_rng(0))
    assert sound.shape == (2, 4 * 1920)
    assert labels.shape == (2, 4, 4)
