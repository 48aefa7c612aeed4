"""The packaged model `nano`: small enough to ship, loaded by name, and it does its job."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from personaplex.core.audio.activity import caller_frames
from personaplex.core.audio.reading import planned_frames
from personaplex.core.config import FRAME_RATE, SAMPLE_RATE
from personaplex.core.engine.batch import Batch, Plan
from personaplex.core.engine.job import Job, Prompt, Response
from personaplex.core.nn.products import pack
from personaplex.core.weights.model import Model, load, locate
from personaplex.core.weights.verify import verify
from personaplex.runs.models.known import known_model
from personaplex.samples.catalog import model_folder, model_names, packaged_directory
from personaplex.samples.nano.recipe import domain
from personaplex.voices.loading import load_voice

MOST_BYTES = 40 * 10**6


@pytest.fixture(scope="module")
def model() -> Model:
    loaded = load(locate(str(packaged_directory("nano"))), torch.device("cpu"))
    pack(loaded.lm)
    return loaded


def greeted(model: Model, folder: Path, company: str, name: str, voice: str) -> Response:
    file = folder / "silent.wav"
    soundfile.write(file, np.zeros(7 * SAMPLE_RATE), SAMPLE_RATE)
    role = domain.role(next(desk for desk in domain.ALL if company in desk.companies), company, name)
    spoken = load_voice(model_folder("nano") / "voices" / f"{voice}.wav", model)
    prompt = Prompt(spoken, role, tuple(model.tokenizer.prompt_ids(role)))
    (response,) = Batch(model, Plan(1), lambda done: done).run([Job("call", file, prompt, 1, planned_frames(file))])
    assert isinstance(response, Response)
    return response


def test_it_is_small_and_whole() -> None:
    folder = model_folder("nano")
    assert sum(path.stat().st_size for path in folder.rglob("*")) < MOST_BYTES
    assert not [file.problem for file in verify(str(folder)) if file.problem]


def test_its_name_stands_for_its_directory() -> None:
    assert "nano" in model_names()
    assert packaged_directory("tiny") is None
    assert packaged_directory("../models/nano") is None
    assert known_model("nano").dtype is torch.bfloat16


def test_it_greets_as_the_prompt_says(model: Model, tmp_path: Path) -> None:
    response = greeted(model, tmp_path, "Seaview House", "Clara", "nano_f")
    text = model.tokenizer.decode(response.tokens[:, 0].tolist())
    assert "Seaview House" in text
    assert "Clara" in text


def test_it_waits_before_it_greets_and_is_silent_after(model: Model, tmp_path: Path) -> None:
    speaks = caller_frames(greeted(model, tmp_path, "Northgate Bank", "Ben", "nano_m").samples)
    second = round(FRAME_RATE)
    assert not speaks[:second].any()
    assert speaks[2 * second : 4 * second].mean() > 0.5
    assert not speaks[-second:].any()
