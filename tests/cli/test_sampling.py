"""The same command gives the same answer; the seed and the sampling options change it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def answer(desk: Desk, *options: str) -> tuple[bytes, str]:
    """The bytes of the WAV, and of the transcript up to its volatile block."""
    result = desk.offline(*options)
    assert result.code == 0, result.err
    wav, text = (desk.folder / "call.agent.wav"), (desk.folder / "call.agent.json")
    made = wav.read_bytes(), text.read_text(encoding="utf-8").partition('"volatile"')[0]
    wav.unlink()
    text.unlink()
    return made


def test_the_same_command_gives_the_same_bytes(desk: Desk) -> None:
    options = ("--format", "srt", "--output-subtype", "FLOAT")
    assert answer(desk, *options) == answer(desk, *options)


def test_the_same_command_in_two_processes_gives_the_same_bytes(desk: Desk) -> None:
    made = []
    for _ in range(2):
        arguments = ("--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav")
        assert desk.process("offline", *arguments).code == 0
        text = (desk.folder / "call.agent.json").read_text(encoding="utf-8")
        made.append(((desk.folder / "call.agent.wav").read_bytes(), text.partition('"volatile"')[0]))
    assert made[0] == made[1]


def test_another_seed_gives_another_answer(desk: Desk) -> None:
    assert answer(desk, "--seed", "1")[0] != answer(desk, "--seed", "2")[0]


def test_a_drawn_seed_is_recorded_and_repeats_the_run(desk: Desk) -> None:
    assert desk.offline("--seed", "-1").code == 0
    seed = desk.document()["sampling"]["seed"]
    drawn = answer(desk, "--seed", str(seed))
    assert desk.offline("--seed", "-1").code == 0
    assert desk.document()["sampling"]["seed"] != seed
    assert answer(desk, "--seed", str(seed)) == drawn


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_the_smallest_and_largest_seed(desk: Desk, seed: int) -> None:
    assert desk.offline("--seed", str(seed)).code == 0
    assert desk.document()["sampling"]["seed"] == seed


@pytest.mark.parametrize(
    "options", [("--greedy",), ("--temp-text", "0", "--temp-audio", "0"), ("--topk-text", "1", "--topk-audio", "1")]
)
def test_ways_to_be_greedy(desk: Desk, options: tuple[str, ...]) -> None:
    expected = answer(desk, "--greedy", "--seed", "1")[0]
    assert answer(desk, *options, "--seed", "2")[0] == expected
    assert answer(desk, "--seed", "2")[0] != expected


def test_each_sampling_option_is_used_and_recorded(desk: Desk) -> None:
    desk.sound("call.wav", desk.noise(2.0))  # long enough for a text token to come again
    plain = answer(desk)[0]
    given = {"temp-text": 1.5, "topk-text": 3, "temp-audio": 1.25, "topk-audio": 5}
    given |= {"topp-text": 0.2, "repetition-penalty": 5.0, "no-repeat-ngram": 1}
    fields = {"topk": "top_k", "topp": "top_p", "-": "_"}
    for name, value in given.items():
        assert desk.offline(f"--{name}", str(value)).code == 0
        field = functools.reduce(lambda text, pair: text.replace(*pair), fields.items(), name)
        assert desk.document()["sampling"][field] == value
        assert answer(desk, f"--{name}", str(value))[0] != plain, name


def test_a_top_k_of_0_keeps_all_tokens(desk: Desk) -> None:
    all_tokens = answer(desk, "--topk-text", "512", "--topk-audio", "2048")[0]
    assert answer(desk, "--topk-text", "0", "--topk-audio", "0")[0] == all_tokens
