"""Callers from scripts, by a synthesiser that hums: what it makes, what it says once, and what goes wrong."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from personaplex.callers.scripts import read_scripts
from personaplex.callers.speaking import synthesiser
from personaplex.core.errors import UsageError
from tests.cli.conftest import Desk, Result

if TYPE_CHECKING:
    from pathlib import Path

HUM = """
import sys
import numpy as np
import soundfile
text, wav, voice = sys.argv[1:]
said = open(text, encoding="utf-8").read()
open("heard.txt", "a").write(voice + ": " + said + "\\n")
if said == "fail":
    sys.exit("no such word")
quiet = np.zeros(800)
tone = 0.3 * np.sin(np.arange(1600 * len(said.split())) / 4) if said != "..." else quiet
soundfile.write(wav, np.concatenate([quiet, tone, quiet]), 16000)
"""


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder with a synthesiser, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(tmp_path / ".own"))
    (tmp_path / "hum.py").write_text(HUM)
    return Desk(tmp_path, capsys, monkeypatch)


def callers(desk: Desk, *arguments: str) -> Result:
    hum = f"{shlex.quote(sys.executable)} hum.py {{text}} {{wav}} {{voice}}"
    return desk.run("callers", *arguments, "-o", "callers", "--synthesiser", hum, "--quiet")


def rows(desk: Desk) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (desk.folder / "callers" / "manifest.jsonl").read_text().splitlines()]


def heard(desk: Desk) -> list[str]:
    return (desk.folder / "heard.txt").read_text().splitlines()


SCRIPTS: list[dict[str, Any]] = [
    {"id": "parcel", "turns": ["where is it", {"say": "oh no", "pause": 0.5, "breaks_in": True}], "role": "delivery"},
    {"turns": [{"say": "hello there"}, {"say": "bye", "at": 9}], "voice": "deep", "lead_in": 0, "tail": 1},
]


def test_recordings_and_their_labels(desk: Desk) -> None:
    desk.manifest(SCRIPTS, "scripts.jsonl")
    assert callers(desk, "scripts.jsonl", "--lead-in", "2", "--pause", "3", "--tail", "4").code == 0
    first, second = rows(desk)
    assert (first["id"], first["audio_filepath"], first["role"]) == ("parcel", "parcel.wav", "delivery")
    assert second["id"] == "caller-0002"
    assert [turn["text"] for turn in first["turns"]] == ["where is it", "oh no"]
    assert [turn["breaks_in"] for turn in first["turns"]] == [False, True]
    starts = [turn["start"] for turn in first["turns"]]
    assert starts[0] == 2
    assert starts[1] == pytest.approx(first["turns"][0]["end"] + 0.5, abs=2e-3)
    assert [turn["start"] for turn in second["turns"]] == [0, 9]
    for row, tail in ((first, 4), (second, 1)):
        samples, rate = soundfile.read(desk.folder / "callers" / row["audio_filepath"])
        assert len(samples) / rate == pytest.approx(row["turns"][-1]["end"] + tail, abs=2e-3)
        loud = np.zeros(len(samples), dtype=bool)
        for turn in row["turns"]:
            at = slice(round(turn["start"] * rate), round(turn["end"] * rate))
            loud[at] = True
            assert np.abs(samples[at]).max() > 0.2
            assert turn["end"] - turn["start"] == pytest.approx(0.1 * len(turn["text"].split()), abs=0.02)
        assert np.abs(samples[~loud]).max() < 0.02
    assert heard(desk)[0].startswith("default: ")
    assert heard(desk)[2:] == ["deep: hello there", "deep: bye"]


def test_a_text_is_spoken_once(desk: Desk) -> None:
    desk.manifest(SCRIPTS, "scripts.jsonl")
    assert callers(desk, "scripts.jsonl").code == 0
    made = desk.tree("callers")
    assert callers(desk, "scripts.jsonl").code == 0
    assert desk.tree("callers") == made
    assert len(heard(desk)) == 4


def test_a_batch_takes_them_and_keeps_the_labels(desk: Desk) -> None:
    desk.sound("voice.wav", desk.noise(0.5))
    desk.manifest([{"id": "x", "turns": ["hello"], "text_prompt": "You listen."}], "scripts.jsonl")
    assert callers(desk, "scripts.jsonl", "--lead-in", "0.1", "--tail", "0.1").code == 0
    assert desk.batch("callers/manifest.jsonl").code == 0
    assert desk.rows()["x"]["turns"] == rows(desk)[0]["turns"]


def test_texts(desk: Desk) -> None:
    (desk.folder / "texts").mkdir()
    (desk.folder / "texts" / "late.txt").write_text("# to a shop\nhello\n\n[2.5]\n[1 s]\n> wait, no\nbye\n")
    (desk.folder / "texts" / "notes.md").write_text("no script")
    (only,) = read_scripts("texts").good
    assert only.id == "late"
    assert [(turn.say, turn.pause, turn.breaks_in) for turn in only.script.turns] == [
        ("hello", None, False),
        ("wait, no", 3.5, True),
        ("bye", None, False),
    ]
    assert callers(desk, "texts").code == 0
    assert callers(desk, "texts/late.txt").code == 0


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ({"turns": []}, "turns: List should have at least 1 item"),
        ({"says": ["x"]}, "turns: Field required"),
        ({"turns": [{"say": ""}]}, "say: String should have at least 1 character"),
        ({"turns": [{"say": "x", "pause": 1, "at": 2}]}, "pause and at exclude each other"),
        ({"turns": [{"say": "x", "pause": -1}]}, "greater than or equal to 0"),
        ({"turns": ["a b c", {"say": "x", "at": 0.1}]}, "turn 2 is at 0.1 s, and the one before ends at"),
        ({"turns": ["fail"]}, "failed: no such word"),
        ({"turns": ["..."]}, 'says nothing for "..."'),
        ({"turns": ["x"], "id": "../x"}, "can't name output files"),
    ],
)
def test_a_script_at_fault_fails_alone(desk: Desk, script: dict[str, Any], what: str) -> None:
    desk.manifest([{"id": "good", "turns": ["hello"]}, script], "scripts.jsonl")
    result = callers(desk, "scripts.jsonl")
    assert result.code == 1
    assert what in result.err
    assert "row 2" in result.err
    assert "Traceback" not in result.err
    assert [row["id"] for row in rows(desk)] == ["good"]


def test_what_stops_the_whole(desk: Desk) -> None:
    desk.manifest([{"id": "x", "turns": ["a"]}], "scripts.jsonl")
    desk.manifest([{"id": "x", "turns": ["a"]}] * 2, "twice.jsonl")
    (desk.folder / "empty").mkdir()
    for source, what in (
        ("gone.jsonl", "No such file"),
        ("empty", "holds no scripts"),
        ("hum.py", "not a .jsonl"),
        ("twice.jsonl", 'the id "x" stands for two scripts'),
    ):
        result = callers(desk, source)
        assert (result.code, what in result.errors[0]) == (2, True), result.err
    (desk.folder / "callers").mkdir()
    (desk.folder / "callers" / "x.wav").write_text("mine")
    assert "was not made from scripts" in callers(desk, "scripts.jsonl").errors[0]
    assert (desk.folder / "callers" / "x.wav").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("no-such-program {text} {wav}", '"no-such-program" is not installed'),
        (f"{sys.executable} {{text}}", "lacks {wav}"),
        (f"{sys.executable} {{text}} {{wav}} {{pitch}}", "'pitch' is no place"),
        (f"{sys.executable} '{{text}} {{wav}}", "No closing quotation"),
        ("", "is not installed"),
    ],
)
def test_a_synthesiser_that_can_not_be_used(command: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        synthesiser(command, None)
    assert what in raised.value.what


def test_no_shell_sees_a_text(desk: Desk) -> None:
    desk.manifest(
        [{"id": "x", "turns": ["$(touch owned); `touch owned` -h"], "voice": "$(touch owned)"}], "scripts.jsonl"
    )
    assert callers(desk, "scripts.jsonl").code == 0
    assert not (desk.folder / "owned").exists()


def test_none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no synthesiser is installed: neither espeak-ng nor flite"):
        synthesiser("auto", None)
