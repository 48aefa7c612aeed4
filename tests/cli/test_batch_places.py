"""A batch replaces and removes what it made, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.errors import InputError
from personaplex.runs.planning import places

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

EVERYTHING = ("--format", "srt,vtt,ctm,textgrid,frames", "--save-tokens")
NAMES = ["a", "a.mix", "a.frames", "a.tokens"]


@pytest.fixture
def calls(desk: Desk) -> Desk:
    """A desk with a call in a folder."""
    (desk.folder / "in").mkdir()
    shutil.copyfile(desk.folder / "call.wav", desk.folder / "in" / "a.wav")
    return desk


def out(desk: Desk, name: str) -> Path:
    return desk.folder / "out" / name


def made(desk: Desk, folder: str = "out") -> dict[str, Any]:
    """A batch's tree, in which a transcript may be called *.frames.json."""
    tree = desk.tree(folder)
    for name in tree:
        if name.endswith(".frames.json"):
            tree[name] = {key: value for key, value in json.loads(tree[name]).items() if key != "volatile"}
    return tree


def failure(desk: Desk, name: str = "a") -> str:
    error: dict[str, str] = desk.rows()[name]["error"]
    return f"{error['kind']}: {error['what']}"


@pytest.mark.parametrize("neighbour", NAMES[1:])
def test_a_neighbour_of_a_like_name(calls: Desk, neighbour: str) -> None:
    shutil.copyfile(calls.folder / "in" / "a.wav", calls.folder / "in" / f"{neighbour}.wav")
    calls.sound("in/a.wav", calls.noise(0.8))
    for seed in ("1", "2"):
        assert calls.batch("in", "--seed", seed, "--slots", "1").code == 0
        assert calls.batch("in", "--seed", seed, out=f"alone{seed}").code == 0
        assert made(calls) == made(calls, f"alone{seed}")


def test_a_neighbour_of_an_earlier_run(calls: Desk) -> None:
    """The mix is no longer asked for, and its name is another item's now."""
    assert calls.batch("in", "--mix").code == 0
    shutil.copyfile(calls.folder / "call.wav", calls.folder / "in" / "a.mix.wav")
    assert calls.batch("in", "--seed", "1").code == 1
    assert "out/a.mix.wav: is there and was not made for this item" in failure(calls, "a.mix")
    assert calls.batch("in", "--seed", "1").code == 0  # with the mix, which nobody asked for any more
    assert calls.rows()["a.mix"]["status"] == "done"


def test_shares_of_one_source(calls: Desk) -> None:
    for name in NAMES[1:]:
        shutil.copyfile(calls.folder / "call.wav", calls.folder / "in" / f"{name}.wav")
    for seed in ("1", "2"):
        for share in ("1/2", "2/2"):
            assert calls.batch("in", "--seed", seed, "--shard", share).code == 0
        assert calls.batch("in", "--seed", seed, out=f"whole{seed}").code == 0
        assert made(calls) == made(calls, f"whole{seed}")


@pytest.mark.parametrize("existing", ["skip", "overwrite"])
@pytest.mark.parametrize(
    "name", ["a.wav", "a.json", "a.srt", "a.TextGrid", "a.frames.json", "a.tokens.safetensors", "a.mix.wav"]
)
def test_a_foreign_file_fails_its_item_alone(calls: Desk, name: str, existing: str) -> None:
    shutil.copyfile(calls.folder / "call.wav", calls.folder / "in" / "b.wav")
    out(calls, name).parent.mkdir()
    out(calls, name).write_text('{"whisper": "mine"}')
    plan = json.loads(calls.batch("in", "--mix", *EVERYTHING, "--dry-run", "--json").out)
    result = calls.batch("in", "--mix", *EVERYTHING, "--existing", existing)
    assert result.code == 1
    what = f"out/{name}: is there and was not made for this item, and is not replaced"
    assert failure(calls) == f"InputError: {what}"
    assert f"error: a: {what}" in result.err
    assert plan["unreadable_files"] == [what]
    assert out(calls, name).read_text() == '{"whisper": "mine"}'
    assert calls.rows()["b"]["status"] == "done"
    assert {path.name for path in out(calls, "").iterdir() if path.name.startswith("a.")} == {name}

    out(calls, name).unlink()
    assert calls.batch("in", "--mix", *EVERYTHING).code == 0
    assert calls.rows()["a"]["status"] == "done"


def test_a_file_that_comes_while_calls_run(calls: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from personaplex.runs import batch

    made = batch.make_jobs

    def then(*arguments: Any) -> Any:
        jobs = made(*arguments)
        out(calls, "a.wav").write_text("mine")
        return jobs

    monkeypatch.setattr(batch, "make_jobs", then)
    assert calls.batch("in").code == 1
    assert out(calls, "a.wav").read_text() == "mine"
    assert "is there and was not made for this item" in failure(calls)


@pytest.mark.parametrize("name", ["a.wav", "a.srt"])
def test_a_file_that_was_changed_by_hand(calls: Desk, name: str) -> None:
    assert calls.batch("in", "--format", "srt").code == 0
    out(calls, name).write_bytes(b"louder")
    assert calls.batch("in", "--format", "srt").code == 0  # nothing to do: it stays
    assert out(calls, name).read_bytes() == b"louder"
    for options in (("--seed", "1"), ("--existing", "overwrite")):
        assert calls.batch("in", "--format", "srt", *options).code == 1
        assert failure(calls) == f"InputError: out/{name}: was changed after it was made, and is not replaced"
        assert out(calls, name).read_bytes() == b"louder"


def test_a_file_changed_by_hand_that_is_no_longer_asked_for(calls: Desk) -> None:
    assert calls.batch("in", *EVERYTHING).code == 0
    out(calls, "a.TextGrid").write_text("annotated")
    assert calls.batch("in", "--seed", "1").code == 0
    kept = {path.name for path in out(calls, "").iterdir()}
    assert kept == {"a.json", "a.wav", "a.TextGrid", "results.jsonl", "run.json"}


@pytest.mark.parametrize("written", range(1, 4))
def test_a_full_disk_leaves_the_old_answer(calls: Desk, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    assert calls.batch("in", "--format", "srt").code == 0
    before = {name: content for name, content in calls.tree().items() if name.startswith("a.")}
    sync, left = os.fsync, [written + 1]  # run.json first

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, os.strerror(28))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert calls.batch("in", "--format", "srt", "--output-subtype", "FLOAT").code == 1
    assert "No space left on device" in failure(calls)
    assert {name: content for name, content in calls.tree().items() if name.startswith("a.")} == before
    assert not list(out(calls, "").glob(".*"))


@pytest.mark.parametrize(("name", "content"), [("run.json", b'{"mine": 1}'), ("results.jsonl", b"\xff\xfe{}")])
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--existing", "overwrite")])
def test_a_runs_own_file_of_another_kind(calls: Desk, name: str, content: bytes, options: tuple[str, ...]) -> None:
    """Found before any call is run."""
    out(calls, "").mkdir()
    out(calls, name).write_bytes(content)
    result = calls.batch("in", *options)
    assert result.code == 2
    assert f"out/{name}: " in result.errors[0]
    assert result.errors[1] == "  move it away, or choose another folder with -o"
    assert calls.tree() == {name: json.loads(content) if name == "run.json" else content}


def test_a_folder_called_results(calls: Desk) -> None:
    out(calls, "results.jsonl").mkdir(parents=True)
    assert "out/results.jsonl: is a folder, and is not replaced" in calls.batch("in").errors[0]


def test_a_file_where_an_items_folder_should_be(calls: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before the call is run."""
    from personaplex.core.engine.slots import Engine

    (calls.folder / "in" / "sub").mkdir()
    (calls.folder / "in" / "a.wav").rename(calls.folder / "in" / "sub" / "a.wav")
    out(calls, "").mkdir()
    out(calls, "sub").write_text("mine")
    monkeypatch.setattr(Engine, "step", lambda *_: pytest.fail("a call was run"))
    what = "out/sub: is there and is no folder, and is not replaced"
    assert json.loads(calls.batch("in", "--dry-run", "--json").out)["unreadable_files"] == [what]
    assert calls.batch("in").code == 1
    assert failure(calls, "sub/a") == f"InputError: {what}"
    assert out(calls, "sub").read_text() == "mine"


def test_results_that_cannot_be_written_for_a_while(calls: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is lost by it: they are written the next time, or at the end."""
    from personaplex.runs import ledger

    merge, left = ledger.merge_results, [1]

    def fails_once(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise InputError("out: cannot be locked: No locks available")
        merge(*arguments)

    for name in "bc":
        shutil.copyfile(calls.folder / "call.wav", calls.folder / "in" / f"{name}.wav")
    monkeypatch.setattr(ledger, "merge_results", fails_once)
    monkeypatch.setattr(ledger, "FLUSH_SECONDS", 0.0)
    result = calls.run("batch", "in", "-o", "out", "--model", "tiny", "--voice-prompt", "voice.wav", "--slots", "1")
    assert result.code == 0
    assert "warning: out: cannot be locked: No locks available; tried again" in result.err
    assert [row["status"] for row in calls.rows().values()] == ["done"] * 3


def test_lines_of_others_in_the_results(calls: Desk) -> None:
    out(calls, "").mkdir()
    out(calls, "results.jsonl").write_text('{"mine": 1}\n{"id": "a", "label": "urgent"}\n')
    for _ in range(2):
        assert calls.batch("in").code == 0
        first, *others = out(calls, "results.jsonl").read_text().splitlines()
        assert json.loads(first)["status"] == "done"
        assert sorted(others) == ['{"id": "a", "label": "urgent"}', '{"mine": 1}']


def test_a_folder_that_takes_names_for_the_same(calls: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(calls.folder / "call.wav", calls.folder / "in" / "A.wav")
    assert calls.batch("in").code == 0
    monkeypatch.setattr(places, "ignores_case", lambda folder: True)
    result = calls.batch("in", out="usb")
    assert result.code == 2
    assert "in/a.wav and in/A.wav would both write usb/a.wav: this folder takes A and a as one" in result.errors[0]
    assert calls.tree("usb") == {}
    (calls.folder / "in" / "A.wav").unlink()
    assert calls.batch("in", out="usb").code == 0


NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX alone")
class TestNamesThatAreNotUtf8:
    def test_the_output_folder(self, calls: Desk) -> None:
        result = calls.batch("in", "--json", out=NOT_UTF8)
        assert (result.code, json.loads(result.out)["output"]) == (0, NOT_UTF8)
        (calls.folder / NOT_UTF8 / "a.wav").write_text("mine")
        assert calls.batch("in", "--json", "--seed", "1", out=NOT_UTF8).code == 1
        assert failure_in(calls.folder / NOT_UTF8).startswith(f"{NOT_UTF8}/a.wav: was changed")

    def test_a_single_calls_folder(self, calls: Desk) -> None:
        (calls.folder / NOT_UTF8).mkdir()
        assert calls.offline("--output-wav", f"{NOT_UTF8}/x.wav").code == 0
        document = json.loads((calls.folder / NOT_UTF8 / "x.json").read_bytes())
        assert document["output"]["path"] == "x.wav"
        told = "error: the name b'caf\\xe9.wav' is not valid UTF-8 |   choose another name"
        assert calls.refused(2, "--output-wav", f"{NOT_UTF8}.wav") == told

    def test_the_current_folder(self, calls: Desk) -> None:
        (calls.folder / NOT_UTF8).mkdir()
        calls.monkeypatch.chdir(calls.folder / NOT_UTF8)
        voice = ("--voice-prompt", "../voice.wav")
        assert calls.batch("../in", *voice, out="../out").code == 0
        recorded = json.loads(out(calls, "run.json").read_bytes())
        assert recorded["not_utf8"] == "surrogateescape"
        assert Path(recorded["volatile"]["folder"]).samefile(calls.folder / NOT_UTF8)
        assert calls.run("regress", "record", "../out", "-o", "../goldens").code == 0
        assert calls.run("regress", "check", "../goldens", "-q").code == 0

    def test_the_source(self, calls: Desk) -> None:
        (calls.folder / "in").rename(calls.folder / NOT_UTF8)
        result = calls.batch(NOT_UTF8)
        assert result.code in {0, 1}
        assert "Traceback" not in result.err
        recorded = json.loads(out(calls, "run.json").read_bytes())
        assert os.fsencode(recorded["source"]) == b"caf\xe9"


def failure_in(folder: Path) -> str:
    row = json.loads((folder / "results.jsonl").read_bytes().splitlines()[0])
    return str(row["error"]["what"])
