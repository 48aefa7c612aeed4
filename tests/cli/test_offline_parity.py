"""A parity case from its WAV to its tokens, samples and frames, by the command line alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load_file

if TYPE_CHECKING:
    from tests.cli.conftest import Desk, Result
    from tests.conftest import BuildModel, ParityCase


def run_case(desk: Desk, case: ParityCase, model: Path, voice: str, *options: str) -> Result:
    result = desk.run(
        *("offline", "--model", model, "--input-wav", case.path / "user.wav", "--voice-prompt", case.path / voice),
        *("--text-prompt", case.facts["text_prompt"], "--greedy", "--dtype", "float32", *options),
    )
    assert result.code == 0, result.err
    return result


@pytest.mark.parametrize("voice", ["voice.wav", "voice.pt"])
@pytest.mark.parametrize("name", ["short", "no_text", "wide"])
def test_the_reference_and_we_agree(
    desk: Desk, parity_cases: dict[str, ParityCase], build_model: BuildModel, name: str, voice: str
) -> None:
    case = parity_cases[name]
    options = ("--save-tokens", "--format", "frames", "--output-subtype", "FLOAT")
    run_case(desk, case, build_model(name), voice, *options)
    expected, found = (
        load_file(case.path / "expected.safetensors"),
        load_file(desk.folder / "user.agent.tokens.safetensors"),
    )
    assert np.array_equal(found["tokens"], expected["tokens"][:, :9])
    assert np.array_equal(found["user_codes"], expected["user_codes"])
    assert json.loads((desk.folder / "user.agent.frames.json").read_text()) == case.facts["reference_text"]
    samples, tail = desk.samples("user.agent.wav"), expected["pcm_tail"]
    assert len(samples) == case.facts["samples"]
    assert np.abs(samples[case.facts["pcm_tail_start"] :] - tail).max() <= 1e-4 * np.abs(tail).max()
    assert desk.document("user.agent.json")["prompt"]["steps"] == case.facts["prompt_steps"]


def test_a_call_longer_than_its_context_says_when(
    desk: Desk, parity_cases: dict[str, ParityCase], build_model: BuildModel
) -> None:
    case = parity_cases["wide"]
    free = case.facts["lm"]["context"] - case.facts["prompt_steps"]
    assert 0 < free < case.facts["live_frames"]
    run_case(desk, case, build_model("wide"), "voice.pt")
    warning = f"longer than the context: the persona starts to be forgotten at {free * 0.08:.2f} s"
    assert desk.document("user.agent.json")["warnings"] == [warning]


def test_8_depth_steps_in_shards(desk: Desk, parity_cases: dict[str, ParityCase], build_model: BuildModel) -> None:
    case = parity_cases["no_text"]
    run_case(desk, case, build_model("no_text", steps=8, shards=3), "voice.wav", "--save-tokens")
    found = load_file(desk.folder / "user.agent.tokens.safetensors")["tokens"]
    assert np.array_equal(found, load_file(case.path / "expected.safetensors")["tokens"][:, :9])


def test_weights_given_one_by_one(
    desk: Desk, parity_cases: dict[str, ParityCase], build_model: BuildModel, tmp_path: Path
) -> None:
    case, whole, bare = parity_cases["no_text"], build_model("no_text"), tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((whole / "config.json").read_bytes())
    files = {
        "--moshi-weight": "model.safetensors",
        "--mimi-weight": "mimi.safetensors",
        "--tokenizer": "tokenizer.model",
    }
    options = [str(part) for option, file in files.items() for part in (option, whole / file)]
    run_case(desk, case, bare, "voice.wav", "--save-tokens", *options)
    found = load_file(desk.folder / "user.agent.tokens.safetensors")["tokens"]
    assert np.array_equal(found, load_file(case.path / "expected.safetensors")["tokens"][:, :9])
