"""Every kind of caller's audio: what is refused, what runs, and with which warning."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from personaplex.samples import tiny

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk


def make_bad(folder: Path) -> None:
    """A file for each row of what fails."""
    whole = (folder / "call.wav").read_bytes()
    (folder / "folder.wav").mkdir()
    (folder / "empty.wav").touch()
    (folder / "text.wav").write_text("Hello, this is Nora Field.")
    (folder / "noise.wav").write_bytes(np.random.default_rng(0).bytes(5000))
    (folder / "cut.wav").write_bytes(whole[:30])
    soundfile.write(folder / "none.wav", np.zeros(0), 24_000)
    for name, value in (("nan.wav", np.nan), ("infinite.wav", np.inf)):
        samples = np.zeros(4800)
        samples[1200] = value
        soundfile.write(folder / name, samples, 24_000, subtype="FLOAT")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.wav", "cannot be read: No such file or directory |   check the path"),
        ("call.wav/x", "cannot be read: Not a directory |   check the path"),
        ("folder.wav", "cannot be read: Is a directory |   name an audio file inside it"),
        ("empty.wav", "is empty (0 bytes)"),
        ("text.wav", "is not audio that can be read"),
        ("noise.wav", "is not audio that can be read"),
        ("cut.wav", "is not audio that can be read"),
        ("none.wav", "holds no audio"),
        ("nan.wav", "the sample at 0.050000 s is not a finite number"),
        ("infinite.wav", "the sample at 0.050000 s is not a finite number"),
        ("/dev/null", "is a pipe or a device, not a file"),
        (f"{'a' * 300}.wav", "cannot be read: File name too long"),
    ],
)
def test_refused_audio(desk: Desk, name: str, reason: str) -> None:
    make_bad(desk.folder)
    assert desk.refused(1, call=name).startswith(f"error: {name}: {reason}")


def test_a_name_that_is_not_utf8_is_refused(desk: Desk) -> None:
    assert desk.refused(2, call="\udcff.wav").startswith("error: the name b'")


@pytest.mark.parametrize("channel", ["right", "1", "7"])
def test_a_channel_that_the_file_lacks(desk: Desk, channel: str) -> None:
    assert desk.refused(1, "--channel", channel).startswith(
        f'error: call.wav: has 1 channel, so no channel "{channel}"'
    )


def test_shorter_than_a_frame(desk: Desk) -> None:
    desk.sound("call.wav", desk.noise(0.5)[:100])
    assert desk.offline().code == 0
    assert len(desk.samples()) == 100
    assert len(desk.document()["text_tokens"]) == 1


def test_beyond_full_scale(desk: Desk) -> None:
    samples = desk.noise(0.5).clip(-0.9, 0.9)
    samples[100:103] = 1.5, -2.0, 1.0
    desk.sound("call.wav", samples, subtype="FLOAT")
    result = desk.offline()
    assert result.code == 0
    assert desk.document()["warnings"] == ["samples beyond full scale (±1), used as they are: 2"]
    assert "warning: samples beyond full scale (±1), used as they are: 2\n" in result.err


def test_silence(desk: Desk) -> None:
    desk.sound("call.wav", np.zeros(12_000))
    assert desk.offline().code == 0
    assert desk.document()["warnings"] == []


def test_a_file_cut_in_its_samples_is_used_as_far_as_it_goes(desk: Desk) -> None:
    (desk.folder / "call.wav").write_bytes((desk.folder / "call.wav").read_bytes()[: 44 + 2 * 6000])
    assert desk.offline().code == 0
    assert len(desk.samples()) == 6000
    (warning,) = desk.document()["warnings"]
    assert warning.startswith("the file is cut short")


@pytest.mark.parametrize(("name", "subtype"), [("call.flac", "PCM_16"), ("call.ogg", "VORBIS"), ("call.aiff", "ULAW")])
def test_other_formats(desk: Desk, name: str, subtype: str) -> None:
    desk.sound(name, desk.noise(0.5), subtype=subtype)
    assert desk.offline(call=name).code == 0
    assert len(desk.samples()) == 12_000


class TestLongAudio:
    """A context of 32 leaves 12 live calls behind a prompt of 8 voice frames and 12 of silence."""

    @pytest.fixture(autouse=True)
    def _short_context(self, monkeypatch: pytest.MonkeyPatch, loaded_tiny: object) -> None:
        config = dataclasses.replace(tiny.CONFIG, lm=dataclasses.replace(tiny.CONFIG.lm, context=32))
        monkeypatch.setattr(tiny, "CONFIG", config)
        monkeypatch.setattr(tiny, "load", loaded_tiny.__wrapped__)  # type: ignore[attr-defined]

    def test_one_that_fits(self, desk: Desk) -> None:
        desk.sound("call.wav", desk.noise(12 * 0.08))
        assert desk.offline("--text-prompt", "", "--long-audio", "error").code == 0
        assert desk.document()["warnings"] == []

    def test_a_longer_one_is_warned_of(self, desk: Desk) -> None:
        desk.sound("call.wav", desk.noise(12 * 0.08 + 0.01))
        result = desk.offline("--text-prompt", "")
        warning = "longer than the context: the persona starts to be forgotten at 0.96 s"
        assert result.code == 0
        assert desk.document()["warnings"] == [warning]
        assert result.err.splitlines()[-1] == f"warning: {warning}"
        assert len(desk.samples()) == 23_280

    def test_a_longer_one_is_refused_if_wanted(self, desk: Desk) -> None:
        desk.sound("call.wav", desk.noise(12 * 0.08 + 0.01))
        error = desk.refused(1, "--text-prompt", "", "--long-audio", "error")
        assert "error: call.wav: 20 prompt and 13 live frames exceed the context of 32 |   shorten the call" in error

    def test_aligned_to_the_model_it_needs_one_more(self, desk: Desk) -> None:
        desk.sound("call.wav", desk.noise(12 * 0.08))
        options = ("--text-prompt", "", "--align", "model")
        desk.refused(1, *options, "--long-audio", "error")
        assert desk.offline(*options).code == 0
        assert len(desk.document()["warnings"]) == 1

    def test_a_prompt_longer_than_the_context(self, desk: Desk) -> None:
        assert "the context holds 32 (2.56 s), the call included" in desk.refused(2, "--text-prompt", "word " * 40)
