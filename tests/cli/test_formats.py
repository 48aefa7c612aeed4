"""The formats beside the JSON, and what is printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

NAMES = {"srt": ".srt", "vtt": ".vtt", "ctm": ".ctm", "textgrid": ".TextGrid", "frames": ".frames.json"}


def test_all_formats_tell_the_same(desk: Desk) -> None:
    result = desk.offline("--format", ",".join(NAMES))
    made = [f"call.agent{suffix}" for suffix in (".wav", *NAMES.values(), ".json")]
    assert result.out.splitlines() == made
    assert desk.names() == {"call.wav", "voice.wav", *made}

    document = desk.document()
    words = [word for segment in document["segments"] for word in segment["words"]]
    texts = {name: (desk.folder / f"call.agent{suffix}").read_text("utf-8") for name, suffix in NAMES.items()}
    assert texts["srt"].count(" --> ") == texts["vtt"].count(" --> ") == len(document["segments"])
    assert texts["vtt"].startswith("WEBVTT\n")
    assert [line.split()[4] for line in texts["ctm"].splitlines()] == [word["word"] for word in words]
    assert texts["textgrid"].startswith('File type = "ooTextFile"\n')
    frames = json.loads(texts["frames"])
    assert len(frames) == len(document["text_tokens"])
    assert [frame == "PAD" for frame in frames] == [token == 3 for token in document["text_tokens"]]
    for segment in document["segments"]:
        assert segment["text"] in texts["srt"]


@pytest.mark.parametrize("name", NAMES)
def test_one_format_comes_beside_the_json(desk: Desk, name: str) -> None:
    assert desk.offline("--format", f"json, {name.upper()},{name}", "--output-text", "said.json").code == 0
    assert desk.names() == {"call.wav", "voice.wav", "call.agent.wav", "said.json", f"said{NAMES[name]}"}


def test_json_prints_the_document_alone(desk: Desk) -> None:
    result = desk.offline("--json")
    assert result.out == (desk.folder / "call.agent.json").read_text(encoding="utf-8")


def test_quiet_says_nothing_but_results(desk: Desk) -> None:
    desk.sound("call.wav", 20 * desk.noise(0.5), subtype="FLOAT")
    result = desk.offline("--quiet")
    assert (result.out, result.err) == ("call.agent.wav\ncall.agent.json\n", "")
    assert len(desk.document()["warnings"]) == 1


def test_quiet_leaves_errors(desk: Desk) -> None:
    assert desk.refused(1, "--quiet", call="nix.wav").startswith("error: nix.wav: ")


def test_log_level_info_tells_the_time_of_each_phase(desk: Desk) -> None:
    result = desk.offline("--log-level", "info")
    assert "loaded tiny on cpu in " in result.err
    assert "prompt " in result.err.splitlines()[-1]
    assert result.out == "call.agent.wav\ncall.agent.json\n"


def test_log_level_debug_adds_a_traceback_and_keeps_the_exit_code(desk: Desk) -> None:
    result = desk.offline("--log-level", "debug", "--role", "nix")
    assert result.code == 2
    assert "Traceback (most recent call last)" in result.err
    assert 'error: no role is called "nix"' in result.err.splitlines()
