"""The packaged model nano: it is what the recipe makes, small enough to come with the package, and answers a call."""

import re
from pathlib import Path

import pytest
import torch

from personaplex.api import Call, load_model
from personaplex.core.weights.model import ModelFiles, locate
from personaplex.core.weights.verify import verify
from personaplex.samples import catalog
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.freeze import CODEC, read_codec
from personaplex.samples.nano.recipe.tokenizer import words
from personaplex.samples.nano.recipe.trainee import lm_config
from personaplex.samples.nano.recipe.units import AGENTS, tone_and_silence

FOLDER = catalog.model_folder("nano")


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    return locate(catalog.placed("nano"))


def test_it_is_what_the_recipe_makes(files: ModelFiles) -> None:
    assert files.config.lm == lm_config(files.config.lm.text_vocab)
    assert files.config.mimi == CODEC
    assert (files.config.silence_codes, files.config.sine_codes) == tone_and_silence(read_codec(files.mimi))
    assert not [file for file in verify(str(FOLDER)) if file.problem]


def test_it_takes_40_megabytes_at_most() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 40e6


def test_its_voices_come_with_it(files: ModelFiles) -> None:
    assert files.voices is not None
    assert {path.stem for path in files.voices.iterdir()} == set(AGENTS.values())


def test_it_greets_and_answers_in_words_of_its_domain(tmp_path: Path) -> None:
    samples = catalog.manifest_path().parent
    desk = domain.ALL[1]
    role = domain.role(desk, desk.companies[0], domain.NAMES[0])
    call = Call(samples / "calls" / "clinic.wav", voice_prompt=FOLDER / "voices" / "nano_f.wav", text_prompt=role)
    answer = load_model("nano").answer(call)
    assert torch.isfinite(torch.from_numpy(answer.audio)).all()
    said = set(re.findall(r"[A-Za-z']+", answer.text))
    assert len(said) >= 3
    assert said <= {word.lstrip("▁") for word in words(domain.utterances())}
