"""Conversations from the command line: files, resume, identity, and rows at fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

from tests.cli.conftest import VOICE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk, Result

ROWS: list[dict[str, Any]] = [
    {"id": "plain", "a": {"text_prompt": "You sell boats."}, "b": {"text_prompt": ""}, "seconds": 1.2, "team": 7},
    {"id": "first", "a": {"role": "teacher"}, "b": {"text_prompt": "Hm."}, "seconds": 1, "begins": "a", "lead_in": 0.4},
    {
        "id": "deep/line",
        "a": {"text_prompt": "Hm.", "seed": 3, "sampling": {"temp_audio": 0.4, "top_k_text": 5}},
        "b": {"text_prompt": "Hm.", "seed": 4},
        "seconds": 0.8,
        "line": {"band": "telephone", "noise_dbfs": -40, "gain_db": 3, "delay": 0.1},
    },
    {
        "id": "opened",
        "a": {"text_prompt": ""},
        "b": {"text_prompt": ""},
        "seconds": 0.9,
        "begins": "b",
        "opening": "hello.wav",
    },
]


@pytest.fixture
def talks(desk: Desk) -> Desk:
    """A desk with a manifest of four conversations."""
    desk.sound("hello.wav", desk.noise(0.4, seed=4))
    desk.manifest(ROWS, "talks.jsonl")
    return desk


def talk(desk: Desk, *options: str | Path, source: str = "talks.jsonl", out: str = "out") -> Result:
    fixed = ("--model", "tiny", "--voice-prompt", VOICE, "--quiet")
    return desk.run("talk", source, "-o", out, *fixed, *options)


def document(desk: Desk, name: str, out: str = "out") -> Any:
    return json.loads((desk.folder / out / f"{name}.json").read_text(encoding="utf-8"))


def test_what_is_written(talks: Desk) -> None:
    assert talk(talks, "--save-tokens").code == 0
    rows = talks.rows()
    assert list(rows) == ["plain", "first", "deep/line", "opened"]
    assert rows["plain"]["team"] == 7
    assert rows["deep/line"]["output"] == "deep/line.wav"
    assert rows["deep/line"]["sides"] == {"a": "deep/line.a.wav", "b": "deep/line.b.wav"}
    for name, row in rows.items():
        made = document(talks, name)
        folder = (talks.folder / "out" / f"{name}.json").parent
        both, rate = soundfile.read(folder / made["output"]["path"], dtype="int16")
        assert rate == 24_000
        assert len(both) == round(made["duration"] * rate)
        for channel, speaker in enumerate("ab"):
            alone, _ = soundfile.read(folder / made["sides"][speaker]["output"]["path"], dtype="int16")
            assert np.array_equal(both[:, channel], alone)
        assert sorted(made["files"]) == sorted(
            p.name for p in folder.glob(f"{name.rpartition('/')[2]}.*") if p.suffix != ".json"
        )
        spoken = [turn["text"] for turn in made["segments"] if turn["speaker"] == "a"]
        assert " ".join(spoken) == made["sides"]["a"]["text"] == row["text"]["a"]
        starts = [turn["start"] for turn in made["segments"]]
        assert starts == sorted(starts)
        assert made["end"] == row["end"] == "length"
    assert json.loads((talks.folder / "out" / "run.json").read_text())["schema"] == "personaplex.talk/1"


def test_tokens_tell_that_each_side_heard_the_other(talks: Desk) -> None:
    assert talk(talks, "--save-tokens").code == 0
    tokens = load_file(talks.folder / "out" / "plain.tokens.safetensors")
    assert np.array_equal(tokens["a.heard"][1:], tokens["b.tokens"][:-1, 1:])
    assert np.array_equal(tokens["b.heard"][1:], tokens["a.tokens"][:-1, 1:])


def test_settings_are_recorded_and_heeded(talks: Desk) -> None:
    assert talk(talks, "--seed", "5").code == 0
    line, first = document(talks, "deep/line"), document(talks, "first")
    assert line["settings"]["line"] == ROWS[2]["line"]
    assert line["sides"]["a"]["sampling"]["seed"] == 3
    assert line["sides"]["a"]["sampling"]["temp_audio"] == 0.4
    assert line["sides"]["b"]["sampling"]["temp_audio"] == 0.8
    assert first["settings"]["begins"] == "a"
    assert set(first["sides"]["b"]["text_tokens"][1:6]) == {3}
    assert document(talks, "opened")["settings"]["opening"]["path"] == "hello.wav"


def test_together_as_alone_and_in_shards(talks: Desk) -> None:
    assert talk(talks, "--slots", "8").code == 0
    assert talk(talks, "--slots", "2", out="alone").code == 0
    for share in ("1/3", "2/3", "3/3"):
        assert talk(talks, "--shard", share, out="shards").code == 0
    assert talks.tree("alone") == talks.tree() == talks.tree("shards")


def test_resumed_as_undisturbed(talks: Desk) -> None:
    assert talk(talks).code == 0
    whole = talks.tree()
    for lost in ("plain.json", "first.b.wav", "opened.wav"):
        (talks.folder / "out" / lost).unlink()
    result = talk(talks, "--json")
    assert (json.loads(result.out)["done"], json.loads(result.out)["skipped"]) == (3, 1)
    assert talks.tree() == whole
    plan = json.loads(talk(talks, "--dry-run", "--json").out)
    assert (plan["to_run"], plan["skipped"]) == (0, 4)
    assert json.loads(talk(talks, "--json", "--seed", "9").out)["done"] == 3  # the seeds of one are its own
    assert json.loads(talk(talks, "--json", "--seed", "9", "--end-silence", "3").out)["done"] == 4


def test_repeated_conversations_differ(talks: Desk) -> None:
    talks.manifest(ROWS[:1], "talks.jsonl")
    assert talk(talks, "--repeat", "3").code == 0
    rows = talks.rows()
    assert list(rows) == ["plain.1", "plain.2", "plain.3"]
    assert len({row["pcm_sha256"] for row in rows.values()}) == 3


def test_silence_ends_a_conversation_and_is_flagged(talks: Desk) -> None:
    silent = {"a": {"text_prompt": ""}, "b": {"text_prompt": ""}, "seconds": 9, "begins": "a", "lead_in": 9}
    talks.sound("long.wav", talks.noise(8.5, seed=2))
    talks.manifest([silent | {"id": "x", "opening": "long.wav"}], "talks.jsonl")
    assert talk(talks, "--json").code == 0
    made = document(talks, "x")
    assert [(flag["kind"], flag["start"]) for flag in made["flags"]] == [("both_waiting", 0.0)]
    assert "both_waiting" in talks.rows()["x"]["flags"]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"b": {}}, "b: has no text_prompt and no role"),
        ({"a": {"role": "hotle"}}, 'a: no role is called "hotle"'),
        ({"a": {"text_prompt": "x", "voise": 1}}, "a.voise: Extra inputs are not permitted"),
        ({"a": {"text_prompt": "x", "voice_prompt": "nobody"}}, "a: voice 'nobody'"),
        ({"a": {"text_prompt": "x", "sampling": {"temp_text": -1}}}, "a: --temp-text is -1"),
        ({"seconds": 0}, "seconds: Input should be greater than 0"),
        ({"begins": "c"}, "begins: Input should be 'a' or 'b'"),
        ({"lead_in": 2}, 'lead_in needs begins, "a" or "b"'),
        ({"begins": "a", "opening": "gone.wav"}, "opening gone.wav: No such file"),
        ({"begins": "a", "opening": "talks.jsonl"}, "talks.jsonl: "),
        ({"begins": "a", "opening": "hello.wav", "seconds": 0.1}, "opening hello.wav is longer than the conversation"),
        ({"line": {"band": "radio"}}, "line.band: Input should be 'telephone'"),
        ({"line": {"delay": 60}}, "line.delay: Input should be less than or equal to 5"),
        ({"id": "../up"}, "can't name output files"),
    ],
)
def test_a_row_at_fault_fails_alone(talks: Desk, row: dict[str, Any], what: str) -> None:
    sides = {"a": {"text_prompt": "x"}, "b": {"text_prompt": "x"}, "seconds": 0.5}
    talks.manifest([ROWS[1], sides | row], "talks.jsonl")
    result = talk(talks)
    assert result.code == 1
    assert result.err.count("error: ") == 1
    assert "Traceback" not in result.err
    good, bad = talks.rows().values()
    assert (good["status"], bad["status"]) == ("done", "failed")
    assert what in bad["error"]["what"]
    assert "row 2" in bad["error"]["what"]


def test_what_stops_the_whole(talks: Desk) -> None:
    talks.manifest([ROWS[0], ROWS[0]], "twice.jsonl")
    talks.manifest([ROWS[0] | {"id": "x"}, ROWS[0] | {"id": "x.a"}], "clash.jsonl")
    talks.manifest([], "none.jsonl")
    (talks.folder / "file").write_text("")
    for source, options, what in (
        ("clash.jsonl", (), "row 2 would write out/x.a.wav, a file of clash.jsonl, row 1"),
        ("twice.jsonl", (), 'the id "plain" stands for two conversations'),
        ("none.jsonl", (), "holds no rows"),
        ("hello.wav", (), "not a .jsonl or .json"),
        ("gone.jsonl", (), "No such file"),
        ("talks.jsonl", ("--slots", "3"), "a conversation takes two"),
    ):
        result = talk(talks, *options, source=source)
        assert result.code == 2, what
        assert what in " ".join(result.errors)
    nobody = talk(talks, "--voice-prompt", "nobody")
    assert (nobody.code, "voice 'nobody' is unknown" in nobody.errors[0]) == (3, True)
    assert "is not a folder" in " ".join(talk(talks, out="file").errors)


def test_files_of_others_are_left_alone(talks: Desk) -> None:
    (talks.folder / "out").mkdir()
    (talks.folder / "out" / "plain.a.wav").write_bytes(b"mine")
    result = talk(talks)
    assert result.code == 1
    assert (talks.folder / "out" / "plain.a.wav").read_bytes() == b"mine"
    assert [row["status"] for row in talks.rows().values()] == ["failed", "done", "done", "done"]


def test_a_batchs_folder_is_not_taken_over(talks: Desk) -> None:
    talks.manifest([{"audio_filepath": "hello.wav"}])
    assert talks.batch("calls.jsonl").code == 0
    result = talk(talks)
    assert result.code == 2
    assert "no record of a run of this kind" in result.errors[0]


def test_a_walk_passes_conversations_over(talks: Desk) -> None:
    assert talk(talks, out="in/talks").code == 0
    talks.sound("in/call.wav", talks.noise(0.2))
    result = talks.batch("in", "--json")
    assert json.loads(result.out)["done"] == 1
    assert json.loads(result.out)["passed_over"]["runs"] == ["talks"]
