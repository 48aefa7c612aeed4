"""Recordings whose header doesn't say what they hold, and those that need the extra, as a user meets them."""

import json
import sys

import numpy as np
import pytest
import soundfile

from tests.cli.conftest import Desk
from tests.core.audio.sounds import RATE, bare_mp3, form, media, pcm, riff, tone

SOUND = np.concatenate([np.random.default_rng(0).uniform(-0.5, 0.5, RATE // 2), np.zeros(RATE), tone(RATE // 4)])
SECONDS = len(SOUND) / RATE


def test_the_length_of_an_mp3_without_a_count_is_the_same_everywhere(desk: Desk) -> None:
    (desk.folder / "in").mkdir()
    mp3 = bare_mp3(SOUND, desk.folder, bitrate_mode="VARIABLE", compression_level=0.4)
    (desk.folder / "in" / "a.mp3").write_bytes(mp3)
    (plan,) = [json.loads(desk.batch("in", "--dry-run", "--json").out)]
    result = desk.batch("in", "--long-audio", "error")
    duration = desk.document("out/a.json")["input"]["duration"]
    assert (result.code, desk.rows()["a"]["warnings"]) == (0, [])
    assert duration == pytest.approx(SECONDS, abs=0.11)
    assert soundfile.info(desk.folder / "out" / "a.wav").duration == pytest.approx(duration, abs=1e-3)
    assert plan["frames"] == -(-round(duration * RATE) // 1920)


def test_a_header_that_was_never_finished_is_told(desk: Desk) -> None:
    data = riff(form(), (b"data", pcm(SOUND)))
    unfinished = data.replace(b"data" + (2 * len(SOUND)).to_bytes(4, "little"), b"data" + bytes(4))
    (desk.folder / "a.wav").write_bytes(unfinished)
    result = desk.offline(call="a.wav")
    assert result.code == 0
    assert "warning: the file's header was never finished: the sound is read to the file's end" in result.err
    assert desk.document("a.agent.json")["input"]["duration"] == SECONDS


def test_a_recording_that_needs_the_extra_fails_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.folder / "in").mkdir()
    desk.sound("in/a.wav", SOUND)
    (desk.folder / "in" / "b.m4a").write_bytes(b"\0\0\0\x18ftypM4A ")
    monkeypatch.setitem(sys.modules, "av", None)
    assert "PyAV is not installed" in desk.batch("in", "--dry-run").out
    result = desk.batch("in")
    assert result.code == 1
    assert "only PyAV can read its format (mov), and PyAV is not installed" in result.err
    rows = desk.rows()
    assert (rows["a"]["status"], rows["b"]["status"]) == ("done", "failed")
    assert "personaplex[media]" in str(rows["b"]["error"])


def test_a_recording_with_the_extra(desk: Desk) -> None:
    pytest.importorskip("av")
    (desk.folder / "in").mkdir()
    (desk.folder / "in" / "b.m4a").write_bytes(media(SOUND.astype(np.float32), "ipod", "aac"))
    assert desk.batch("in").code == 0
    assert desk.document("out/b.json")["input"]["duration"] == SECONDS
