"""What is wrong with one row or one name fails that alone: told before the model is loaded, with a row of results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.samples import tiny

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

CALL = {"audio_filepath": "call.wav"}
ROWS = [
    CALL,
    CALL | {"id": "b", "seed": -1, "ticket": 7},
    CALL | {"id": "c", "voice_prompt": "nix.wav"},
    CALL | {"id": "d", "role": "clinc"},
    CALL | {"id": "e", "voice_prompt": "NATM1"},
    {"id": "f"},
    CALL | {"id": "../g"},
    CALL | {"id": "run"},
]
FAILED = {"b", "c", "d", "e", "f", "../g", "run", "row-9"}


def write(desk: Desk, rows: list[dict[str, Any]]) -> None:
    desk.manifest(rows)
    with (desk.folder / "calls.jsonl").open("a") as file:
        file.write("nonsense\n")


def test_bad_rows_fail_alone(desk: Desk) -> None:
    write(desk, ROWS)
    result = desk.batch("calls.jsonl", "--json")
    counts = json.loads(result.out)
    assert (result.code, counts["items"], counts["done"], counts["failed"]) == (1, 9, 1, 8)
    rows = desk.rows()
    assert list(rows) == ["call", "b", "c", "d", "e", "f", "../g", "run", "row-9"]
    assert {name for name, row in rows.items() if row["status"] == "failed"} == FAILED
    assert rows["b"]["ticket"] == 7
    assert rows["b"]["error"]["what"].startswith("calls.jsonl: row 2, seed: Input should be greater")
    assert rows["c"]["error"]["kind"] == "VoiceError"
    assert rows["row-9"]["error"] == {
        "kind": "UsageError",
        "what": "calls.jsonl: row 9: not JSON (Expecting value: line 1 column 1 (char 0))",
        "mend": "mend the row, and run the same command again",
        "row": 9,
    }
    assert all(row["error"]["mend"] for row in rows.values() if row["status"] == "failed")

    again = json.loads(desk.batch("calls.jsonl", "--json").out)
    assert (again["skipped"], again["done"], again["failed"]) == (1, 0, 8)
    assert desk.rows() == rows


def test_mended_rows_take_the_place_of_the_bad_ones(desk: Desk) -> None:
    write(desk, [CALL, CALL | {"id": "b", "seed": -1}])
    assert desk.batch("calls.jsonl").code == 1
    desk.manifest([CALL, CALL | {"id": "b"}, CALL | {"id": "c"}])
    assert desk.batch("calls.jsonl").code == 0
    assert {name: row["status"] for name, row in desk.rows().items()} == dict.fromkeys(("call", "b", "c"), "done")


def test_shards_share_out_bad_rows_too(desk: Desk) -> None:
    write(desk, ROWS)
    for shard in ("1/2", "2/2"):
        desk.batch("calls.jsonl", "--shard", shard)
    assert len(desk.rows()) == 9
    assert {name for name, row in desk.rows().items() if row["status"] == "failed"} == FAILED


def test_bad_rows_count_as_failures_before_a_model_is_loaded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "load", lambda *_: pytest.fail("a model was loaded"))
    desk.manifest([CALL, CALL | {"id": "b", "seed": -1}])
    result = desk.batch("calls.jsonl", "--fail-fast", "--json")
    counts = json.loads(result.out)
    assert (result.code, counts["failed"], counts["not_run"]) == (1, 1, 1)
    assert set(desk.rows()) == {"b"}


def test_what_is_passed_over_is_told_and_recorded(desk: Desk) -> None:
    (desk.folder / "in").mkdir()
    desk.sound("in/a.wav", desk.noise(0.1))
    (desk.folder / "in" / "b.dss").touch()
    result = desk.batch("in")
    assert result.code == 0
    assert "1 file passed over: .dss" in result.out.splitlines()
    assert desk.document("out/run.json")["passed_over"] == {
        "files": {".dss": 1},
        "links": [],
        "runs": [],
        "answers": [],
    }
    assert json.loads(desk.batch("in", "--json").out)["passed_over"]["files"] == {".dss": 1}


def test_a_second_run_does_not_take_the_first_ones_answers_for_calls(desk: Desk) -> None:
    (desk.folder / "in").mkdir()
    desk.sound("in/a.wav", desk.noise(0.1))
    for out in ("in/run1", "in/run2"):
        assert desk.batch("in", out=out).code == 0
        assert list(desk.rows(out)) == ["a"]
    assert "1 folder of an earlier run passed over: run1" in desk.batch("in", out="in/run2").out.splitlines()


def test_what_cannot_be_seen_in_a_name_is_shown(desk: Desk) -> None:
    (desk.folder / "in").mkdir()
    desk.sound("in/ok.wav", desk.noise(0.1))
    (desk.folder / "in" / "a\x1b[1m\n\u202f.wav").touch()
    result = desk.batch("in")
    assert r"error: a\x1b[1m\n\u202f: in/a\x1b[1m\n\u202f.wav: is empty" in result.err
    assert set(desk.rows()) == {"ok", "a\x1b[1m\n\u202f"}


def test_a_key_that_is_nearly_one_is_warned_of(desk: Desk) -> None:
    desk.manifest([CALL | {"voice-prompt": "nix.wav"}])
    result = desk.run(
        "batch", "calls.jsonl", "-o", "out", "--model", "tiny", "--voice-prompt", "voice.wav", "--dry-run"
    )
    assert 'warning: calls.jsonl: "voice-prompt" (row 1) is not a key of manifests' in result.err
