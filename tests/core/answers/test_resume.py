"""An item is done when every output is there and its transcript says what it would say now."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from personaplex.core.answers.outputs import OutputOptions, OutputPaths
from personaplex.core.answers.resume import finished
from personaplex.core.files import read_object

OPTIONS = OutputOptions(formats=("json", "srt"), tokens=True)
SOUND = b"a recording"
SAID: dict[str, Any] = {
    "id": "a",
    "text": "Hello.",
    "input": {"sha256": hashlib.sha256(SOUND).hexdigest(), "channel": "mix", "sample_rate": 8000},
    "sampling": {"seed": 7, "greedy": False},
    "prompt": {"text": "Be kind.", "voice_sha256": "v"},
}
EXPECTED: dict[str, Any] = {
    "id": "a",
    "input": {"channel": "mix", "part": None},
    "sampling": {"seed": 7, "greedy": False},
    "prompt": {"text": "Be kind."},
}


@pytest.fixture
def paths(tmp_path: Path) -> OutputPaths:
    """A finished item's."""
    made = OutputPaths(tmp_path / "a.wav", tmp_path / "a.json", tmp_path / "a.mix.wav")
    for path in made.all(OPTIONS):
        path.touch()
    made.json.write_text(json.dumps(SAID))
    (tmp_path / "call.wav").write_bytes(SOUND)
    return made


def done(paths: OutputPaths, expected: dict[str, Any] = EXPECTED) -> dict[str, Any] | None:
    return finished(paths, OPTIONS, expected, paths.wav.with_name("call.wav"))


def test_a_finished_item(paths: OutputPaths) -> None:
    assert done(paths) == SAID


@pytest.mark.parametrize("name", ["a.wav", "a.json", "a.mix.wav", "a.srt", "a.tokens.safetensors", "call.wav"])
def test_a_file_is_missing(paths: OutputPaths, name: str) -> None:
    path = paths.wav.with_name(name)
    path.unlink()
    assert done(paths) is None
    path.mkdir()
    assert done(paths) is None


def test_an_output_that_is_not_asked_for_may_be_missing(paths: OutputPaths) -> None:
    paths.tokens.unlink()
    assert finished(paths, OutputOptions(), EXPECTED, paths.wav.with_name("call.wav")) == SAID


def test_the_input_has_changed(paths: OutputPaths) -> None:
    paths.wav.with_name("call.wav").write_bytes(SOUND + b"!")
    assert done(paths) is None


@pytest.mark.parametrize(
    "change",
    [
        {"id": "b"},
        {"sampling": {"seed": 8}},
        {"sampling": {"greedy": True}},
        {"input": {"channel": "left"}},
        {"input": {"part": {"offset": 0.0, "duration": 2.0}}},
        {"prompt": {"text": "Be kind. "}},
        {"prompt": {"text": None}},
        {"output": {"subtype": "PCM_16"}},
    ],
)
def test_a_setting_has_changed(paths: OutputPaths, change: dict[str, Any]) -> None:
    assert done(paths, EXPECTED | change) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"x"', '{"input": 3}', '{"input": {}}', "\udcff"])
def test_a_transcript_that_is_none(paths: OutputPaths, content: str) -> None:
    paths.json.write_bytes(content.encode(errors="surrogateescape"))
    assert done(paths) is None
    assert done(paths, {}) is None


def test_read_object(paths: OutputPaths) -> None:
    assert read_object(paths.json) == SAID
    assert read_object(paths.json.with_name("none.json")) is None
    assert read_object(paths.json.parent) is None
