"""Running again: what is done isn't done again, unless something that decides the answer has changed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Desk

ROWS: list[dict[str, Any]] = [{"audio_filepath": f"{name}.wav"} for name in ("a", "b")]
OUTPUTS = ("--format", "json,srt", "--mix")


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A desk on which two calls were run."""
    for seed, row in enumerate(ROWS):
        desk.sound(row["audio_filepath"], desk.noise(0.1, seed=seed))
    desk.sound("other.wav", desk.noise(0.5, seed=9))
    desk.manifest(ROWS)
    assert desk.batch("calls.jsonl", *OUTPUTS).code == 0
    return desk


def again(desk: Desk, *options: str) -> tuple[int, int]:
    """How many items are done and skipped by the same command with more options; a dry run must have said so."""
    plan = desk.batch("calls.jsonl", *OUTPUTS, "--dry-run", "--json", *options)
    result = desk.batch("calls.jsonl", *OUTPUTS, "--json", *options)
    assert (plan.code, result.code) == (0, 0)
    planned, summary = json.loads(plan.out), json.loads(result.out)
    counts = summary["done"], summary["skipped"]
    assert counts == (planned["to_run"], planned["skipped"])
    return counts


def times(desk: Desk, pattern: str = "*") -> dict[str, int]:
    made = (desk.folder / "out").rglob(pattern)
    return {path.name: path.stat().st_mtime_ns for path in made if path.name not in {"results.jsonl", "run.json"}}


def test_an_unchanged_item_is_skipped(done: Desk) -> None:
    before, tree = times(done), done.tree()
    assert again(done) == (0, 2)
    assert again(done, "--existing", "skip", "--slots", "1") == (0, 2)
    assert times(done) == before
    assert done.tree() == tree


def test_lost_results_are_written_again(done: Desk) -> None:
    tree = done.tree()
    (done.folder / "out" / "results.jsonl").unlink()
    assert again(done) == (0, 2)
    assert done.tree() == tree


def test_overwrite(done: Desk) -> None:
    before, tree = times(done), done.tree()
    assert again(done, "--existing", "overwrite") == (2, 0)
    assert all(time > before[name] for name, time in times(done).items())
    assert done.tree() == tree


def test_error(done: Desk) -> None:
    before = times(done)
    for lost in (None, "a.json", "a.wav"):
        if lost is not None:
            (done.folder / "out" / lost).unlink()
            del before[lost]
        result = done.batch("calls.jsonl", *OUTPUTS, "--existing", "error")
        assert result.code == 2
        row = 2 if lost == "a.wav" else 1
        assert result.errors[0].startswith(f"error: calls.jsonl, row {row}: its outputs are there: out/")
    assert times(done) == before
    assert done.batch("calls.jsonl", "--existing", "error", out="elsewhere").code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "7"),
        ("--greedy",),
        ("--temp-text", "0.6"),
        ("--temp-audio", "0.6"),
        ("--topk-text", "24"),
        ("--topk-audio", "24"),
        ("--voice-prompt", "other.wav"),
        ("--text-prompt", "Be brief."),
        ("--role", "conversation"),
        ("--channel", "left"),
        ("--align", "model"),
        ("--output-subtype", "FLOAT"),
        ("--output-rate", "8000"),
        ("--dtype", "bfloat16"),
        ("--save-tokens",),
        ("--format", "json,vtt"),
    ],
    ids=lambda options: options[0],
)
def test_a_changed_setting(done: Desk, options: tuple[str, ...]) -> None:
    """And the folder is then as if nothing had been there before."""
    assert again(done, *options) == (2, 0)
    assert again(done, *options) == (0, 2)
    assert done.batch("calls.jsonl", *OUTPUTS, *options, out="new").code == 0
    found, expected = done.tree(), done.tree("new")
    assert found == expected


def test_back_from_another_type(done: Desk) -> None:
    """`--dtype auto` is the type that the weights are stored in, not any."""
    assert done.batch("calls.jsonl", *OUTPUTS, "--dtype", "bfloat16").code == 0
    assert '"done": 2' in done.batch("calls.jsonl", *OUTPUTS, "--json").out
    assert again(done, "--dtype", "float32") == (0, 2)


def change_input(desk: Desk) -> None:
    desk.sound("a.wav", desk.noise(0.1, seed=50))


def change_voice(desk: Desk) -> None:
    shutil.copy(desk.folder / "other.wav", desk.folder / "voice.wav")


def change_model(desk: Desk, field: str) -> None:
    path = desk.folder / "out" / "a.json"
    path.write_text(path.read_text().replace(desk.document("out/a.json")["model"][field], "0" * 64))


@pytest.mark.parametrize(("change", "count"), [(change_input, 1), (change_voice, 2)])
def test_a_changed_file(done: Desk, change: Callable[[Desk], None], count: int) -> None:
    change(done)
    assert again(done) == (count, 2 - count)


@pytest.mark.parametrize("field", ["weights_sha256", "tokenizer_sha256"])
def test_another_model(done: Desk, field: str) -> None:
    change_model(done, field)
    assert '"skipped": 1' in done.batch("calls.jsonl", *OUTPUTS, "--json").out


def test_a_changed_row(done: Desk) -> None:
    for changed in ({"offset": 0.02}, {"duration": 0.05}, {"seed": 3}, {"channel": "0"}, {"text_prompt": "Be brief."}):
        done.manifest([{"audio_filepath": "a.wav", "id": "a", **changed}, ROWS[1]])
        assert again(done) == (1, 1)
        assert again(done) == (0, 2)
    done.manifest([{"audio_filepath": "a.wav", "id": "a", **changed, "note": "new"}, ROWS[1]])
    assert again(done) == (0, 2)
    assert done.rows()["a"]["note"] == "new"


@pytest.mark.parametrize("name", ["a.wav", "a.json", "a.srt", "a.mix.wav"])
def test_a_lost_output(done: Desk, name: str) -> None:
    tree = done.tree()
    (done.folder / "out" / name).unlink()
    assert again(done) == (1, 1)
    assert done.tree() == tree


def test_a_new_row_leaves_the_others_alone(done: Desk) -> None:
    before = times(done)
    done.manifest([{"audio_filepath": "other.wav"}, *ROWS])
    assert again(done) == (1, 2)
    assert times(done, "[ab].*") == before
    assert list(done.rows()) == ["other", "a", "b"]


def test_an_export_of_other_settings_is_not_taken_for_these(done: Desk) -> None:
    """Made with one seed, left out with another, asked for again: it must be the other's."""
    plain = [option for option in OUTPUTS if option != "--mix"]
    assert done.batch("calls.jsonl", *plain, "--seed", "7").code == 0
    assert not (done.folder / "out" / "a.mix.wav").exists()
    assert done.batch("calls.jsonl", *OUTPUTS, "--seed", "7").code == 0
    assert done.batch("calls.jsonl", *OUTPUTS, "--seed", "7", out="new").code == 0
    assert done.tree() == done.tree("new")


KILLED = """
import os, pathlib
replace, left = pathlib.Path.replace, [%d]
def killed(self, target):
    if pathlib.Path(target).name.startswith("a.") or self.name == "a.json":
        if not left[0]:
            os._exit(9)
        left[0] -= 1
    return replace(self, target)
pathlib.Path.replace = killed
"""


@pytest.mark.parametrize("places", range(5))
def test_a_kill_between_two_files_of_an_item(done: Desk, places: int) -> None:
    """The old transcript goes before the new WAV comes: else the old settings would find theirs done."""
    tree = done.tree()
    arguments = done.batch_arguments("calls.jsonl", *OUTPUTS, "--seed", "7", "--slots", "1")
    assert done.process(*arguments, before=KILLED % places).code == 9
    assert (done.folder / "out" / "a.json").exists() == (places == 0)
    assert again(done)[0] >= (places > 0)
    made = done.tree()
    assert made.pop("run.json").keys() == tree.pop("run.json").keys()  # the killed run's, where nothing was left to do
    assert made == tree
    assert hidden(done.folder / "out") == []


def test_a_dry_run_needs_no_voice_of_the_hub(desk: Desk) -> None:
    result = desk.run(
        "batch", desk.manifest([{"audio_filepath": "call.wav"}]), "-o", "out", "--dry-run", "--voice-prompt", "NATM1"
    )
    assert result.code == 0
    assert "14.6" in result.out  # GiB of the published model's weights
    assert not (desk.folder / "out").exists()


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


def test_what_a_killed_run_left_is_swept(done: Desk) -> None:
    with done.spawn("--version") as gone:
        gone.wait()
    for name in (f".a.{gone.pid}.0123abcd.part.wav", f".c.{gone.pid}.0123abcd.part.wav"):
        (done.folder / "out" / name).touch()
    assert again(done) == (0, 2)
    assert hidden(done.folder / "out") == [f".c.{gone.pid}.0123abcd.part.wav"]  # no item of this run
