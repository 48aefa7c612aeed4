"""`personaplex measure`, `batch --measure`, and what `compare` and `regress` make of measures."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from personaplex.core.measures.rows import MEASURES
from personaplex.runs.measures.summary import SUMMARY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk


@pytest.fixture
def runs(desk: Desk, template: Path) -> Desk:
    """A desk with two calls answered and measured in `out`."""
    return desk.made_once(template, make_runs)


def make_runs(desk: Desk) -> None:
    (desk.folder / "calls").mkdir()
    for number, seconds in enumerate((2.4, 3.2)):
        quiet = np.zeros((round(1.2 * 24_000),), np.float32)
        desk.sound(f"calls/{number}.wav", np.concatenate([desk.noise(seconds - 1.2, seed=number), quiet]))
    made = desk.batch("calls", "--measure")
    assert made.code == 0, made.err
    assert "2 calls measured, 0.1 minutes" in made.out


def rows(desk: Desk, folder: str = "out") -> list[dict[str, Any]]:
    lines = (desk.folder / folder / MEASURES).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_batch_is_measured_at_its_end_as_measure_does_it(runs: Desk) -> None:
    before = (runs.folder / "out" / MEASURES).read_bytes(), (runs.folder / "out" / SUMMARY).read_bytes()
    assert [row["id"] for row in rows(runs)] == ["0", "1"]
    result = runs.run("measure", "out")
    assert result.code == 0, result.err
    assert "turns answered" in result.out
    assert before == ((runs.folder / "out" / MEASURES).read_bytes(), (runs.folder / "out" / SUMMARY).read_bytes())


def test_measures_are_written_where_they_are_wanted(runs: Desk) -> None:
    result = runs.run("measure", "out", "-o", "elsewhere", "--json")
    assert result.code == 0
    assert json.loads(result.out) == json.loads((runs.folder / "elsewhere" / SUMMARY).read_text(encoding="utf-8"))
    shutil.rmtree(runs.folder / "elsewhere")
    (runs.folder / "out" / MEASURES).unlink()
    assert runs.run("measure", "out/0.json").code == 0
    assert not (runs.folder / "out" / MEASURES).exists(), "of one transcript only with -o"


def test_a_call_that_can_not_be_measured_fails_alone(runs: Desk) -> None:
    (runs.folder / "out" / "0.wav").unlink()
    result = runs.run("measure", "out")
    assert result.code == 1
    assert "error: 0: can't be measured: out/0.wav: cannot be read" in result.err
    assert [row["status"] for row in rows(runs)] == ["failed", "measured"]
    assert rows(runs)[0]["error"]["mend"] == "check the path"


def test_a_batch_whose_measures_fail_says_so(runs: Desk) -> None:
    shutil.copy(runs.folder / "calls" / "0.wav", runs.folder / "calls" / "2.wav")
    (runs.folder / "out" / "1.json").write_text("{}", encoding="utf-8")  # of nobody we know, so not replaced
    result = runs.batch("calls", "--measure", "--json")
    assert result.code == 1
    assert json.loads(result.out)["measures"]["calls"] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["calls"], "calls: holds no answers"),
        (["out", "--recordings", "call.wav"], "--recordings"),
    ],
)
def test_where_there_is_nothing_to_measure_it_says_so(runs: Desk, arguments: list[str], told: str) -> None:
    result = runs.run("measure", *arguments)
    assert result.code == 2
    assert told in result.err


def test_somebody_elses_file_stops_it_before_anything_runs(runs: Desk) -> None:
    (runs.folder / "out" / MEASURES).write_text("my own\n", encoding="utf-8")
    for command in (("measure", "out"), ("batch", "calls", "-o", "out", "--measure", "--model", "tiny")):
        result = runs.run(*command)
        assert result.code == 2
        assert "holds no measures, and is not replaced" in result.errors[0]


def test_compare_shows_the_measures_of_both_runs(runs: Desk) -> None:
    shutil.copytree(runs.folder / "out", runs.folder / "other")
    result = runs.run("compare", "out", "other")
    assert result.code == 0
    assert "Measures of the 2 calls that both runs have measures of" in result.out
    document = json.loads(runs.run("compare", "out", "other", "--json").out)
    assert document["measures"]["calls"] == 2
    assert document["measures"]["figures"]["talk_share.agent"]["change_interval"] == [0, 0]


def test_measures_of_an_answer_that_is_gone_are_not_compared(runs: Desk) -> None:
    shutil.copytree(runs.folder / "out", runs.folder / "other")
    changed = [row | {"pcm_sha256": "0" * 64} if row["id"] == "0" else row for row in rows(runs)]
    (runs.folder / "other" / MEASURES).write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")
    assert json.loads(runs.run("compare", "out", "other", "--json").out)["measures"]["calls"] == 1
    (runs.folder / "other" / MEASURES).write_text("{", encoding="utf-8")
    result = runs.run("compare", "out", "other")
    assert result.code == 2
    assert "measure the run again" in result.errors[1]


def test_a_row_may_expect_measures(runs: Desk) -> None:
    asked = {"talk_share.agent": {"min": 0.1}, "overlap_seconds_per_minute": {"max": 0}, "yield_rate.agent": {"min": 1}}
    runs.manifest([{"audio_filepath": "calls/0.wav", "expect": {"measures": asked}}], "asked.jsonl")
    assert runs.batch("asked.jsonl", out="asked").code == 0
    assert {detail for _, detail in expectations(runs, "compare", "asked", "asked").values()} == {
        "not measured: `personaplex measure` does it, or says why it can't"
    }
    assert runs.run("measure", "asked").code == 0
    told = expectations(runs, "compare", "asked", "asked")
    assert told["measures talk_share.agent min 0.1"][0]
    assert not told["measures overlap_seconds_per_minute max 0"][0]
    assert not told["measures yield_rate.agent min 1"][0]
    assert runs.run("regress", "record", "asked", "-o", "goldens").code == 0
    assert expectations(runs, "regress", "check", "goldens") == told, "a check measures the new run by itself"


def expectations(desk: Desk, *command: str) -> dict[str, tuple[bool, str]]:
    """What was expected of the only item of a comparison, which is not met, and how it came out."""
    result = desk.run(*command, "--json")
    assert result.code == 4, result.err
    (item,) = json.loads(result.out)["items"]
    return {one["name"]: (one["passed"], one["detail"]) for one in item["expectations"]}


def test_a_page_of_a_run(runs: Desk) -> None:
    result = runs.run("page", "out")
    assert (result.code, result.out) == (0, "out/page/index.html\n")
    assert (runs.folder / "out/page/data/0.js").is_file()
    assert runs.batch("calls").code == 0, "the run goes on beside its page"
    result = runs.run("page", "out", "-o", "one.html")
    assert (result.code, result.out) == (0, "one.html\n")
    (runs.folder / "out" / "0.json").write_text("{", encoding="utf-8")
    result = runs.run("page", "out")
    assert result.code == 1
    assert "error: 0: can't be shown: out/0.json: not whole JSON" in result.err
