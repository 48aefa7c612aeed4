"""A run's own files: rows hold nothing that differs between runs, and no process loses another's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from personaplex.core.corpus.items import Item, Refused
from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.results import (
    check_own_files,
    done_row,
    failed_row,
    merge_results,
    read_results,
    write_run,
)
from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import temporary

DOCUMENT: dict[str, Any] = {
    "text": "Hello.",
    "tokens_sha256": "t",
    "input": {"duration": 1.5},
    "output": {"path": "1.wav", "pcm_sha256": "p"},
    "files": {"1.wav": "w"},
    "prompt": {"voice": "NATM1"},
    "sampling": {"seed": 7},
    "engine": {"device_kind": "a processor"},
    "flags": [{"kind": "no_text"}, {"kind": "no_text"}, {"kind": "a_loop"}],
    "warnings": ["silent"],
    "volatile": {"seconds": 3},
}


def item(name: str, **extra: Any) -> Item:
    return Item(name, Path("x.wav"), "x.wav", "row 1", Path(), Row(audio_filepath="x.wav", **extra))


def failed(made: Item, error: InputError) -> dict[str, Any]:
    return failed_row(Refused.of(made, error))


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "status": "done", **more}


def test_a_done_row() -> None:
    assert done_row(item("a/1", scenario=[1]), DOCUMENT) == {
        "scenario": [1],
        "id": "a/1",
        "status": "done",
        "audio_filepath": "x.wav",
        "output": "a/1.wav",
        "transcript": "a/1.json",
        "text": "Hello.",
        "duration": 1.5,
        "voice": "NATM1",
        "seed": 7,
        "tokens_sha256": "t",
        "pcm_sha256": "p",
        "files": {"1.wav": "w"},
        "flags": ["a_loop", "no_text"],
        "warnings": ["silent"],
        "device": "a processor",
    }


def test_what_a_row_expects_is_kept() -> None:
    expect = {"must_say": ["hello"], "min_words": 1}
    for made in (done_row(item("a", expect=expect), DOCUMENT), failed(item("a", expect=expect), InputError("x"))):
        assert made["expect"] == expect


def test_a_failed_row() -> None:
    assert failed(item("a", scenario=1), InputError("x.wav: is empty", "leave it out")) == {
        "scenario": 1,
        "id": "a",
        "status": "failed",
        "audio_filepath": "x.wav",
        "error": {"kind": "InputError", "what": "x.wav: is empty", "mend": "leave it out"},
    }


def test_keys_that_results_use_themselves_are_kept_apart() -> None:
    """A NeMo manifest's `text` is what the caller says."""
    extra = {"text": "I say.", "status": "gold", "error": 3, "lang": "en"}
    for made in (done_row(item("a", **extra), DOCUMENT), failed(item("a", **extra), InputError("broken"))):
        assert {made[f"manifest_{key}"] for key in ("text", "status")} == {"I say.", "gold"}
        assert made["manifest_error"] == 3
        assert made["lang"] == "en"
        assert made["status"] in {"done", "failed"}
    assert done_row(item("a", **extra), DOCUMENT)["text"] == "Hello."


def test_rows_come_in_the_sources_order(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for it"
    merge_results(folder, ["a", "b", "c"], {"c": row("c"), "a": row("a")})
    assert list(read_results(folder)) == ["a", "c"]
    merge_results(folder, ["a", "b", "c"], {"b": row("b"), "a": row("a", text="again")})
    assert read_results(folder) == {"a": row("a", text="again"), "b": row("b"), "c": row("c")}
    assert list(read_results(folder)) == ["a", "b", "c"]
    merge_results(folder, ["x", "b"], {"x": row("x")})
    assert list(read_results(folder)) == ["x", "b", "a", "c"]


def test_a_row_that_a_number_names_goes_once_it_is_mended(tmp_path: Path) -> None:
    """And stays while it is part of the source: it may be another shard's."""
    error = UsageError("calls.jsonl: row 2: not JSON", "mend it")
    numbered = failed_row(Refused("row-2", 2, None, {}, error, row=2))
    assert numbered["error"]["row"] == 2
    merge_results(tmp_path, ["a", "row-2"], {"row-2": numbered, "a": row("a")})
    merge_results(tmp_path, ["a", "row-2"], {"a": row("a")})
    assert list(read_results(tmp_path)) == ["a", "row-2"]
    merge_results(tmp_path, ["a", "b"], {"b": row("b")})
    assert list(read_results(tmp_path)) == ["a", "b"]


def test_rows_survive_any_character(tmp_path: Path) -> None:
    rows = {"a": row("a", text="one\u2028two\x85three\nfour é"), "b": row("b")}
    merge_results(tmp_path, ["a", "b"], rows)
    merge_results(tmp_path, ["a", "b"], {})
    assert read_results(tmp_path) == rows
    assert (tmp_path / "results.jsonl").read_bytes().count(b"\n") == 2


def test_a_torn_or_foreign_line_is_passed_over(tmp_path: Path) -> None:
    lines = [json.dumps(row("a")), '{"id": "b", "sta', "", "[1]", '{"no": "id"}', '{"id": ["x"]}', json.dumps(row("c"))]
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    assert read_results(tmp_path) == {"a": row("a"), "c": row("c")}


def test_other_lines_stay_behind_the_rows(tmp_path: Path) -> None:
    others = ["# mine", '{"no": "id"}', "[1, 2]", '{"id": "b", "sta', '{"id": "a", "label": "urgent"}', '{"id": 3}']
    (tmp_path / "results.jsonl").write_text("\n".join([*others, json.dumps(row("old"))]))
    for text in ("one", "two"):
        merge_results(tmp_path, ["a"], {"a": row("a", text=text)})
        lines = (tmp_path / "results.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines[:2]] == [row("a", text=text), row("old")]
        assert sorted(lines[2:]) == sorted(others)
        assert read_results(tmp_path)["a"]["text"] == text


@pytest.mark.parametrize("name", ["results.jsonl", "run.json"])
@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        lambda path: path.write_bytes(b"\xff\xfe{}"),
        lambda path: path.symlink_to("nothing"),
        pytest.param(os.mkfifo, marks=pytest.mark.skipif(os.name != "posix", reason="pipes with names")),
    ],
)
def test_files_of_that_name_of_another_kind(tmp_path: Path, name: str, make: Any) -> None:
    check_own_files(tmp_path)
    check_own_files(tmp_path / "nowhere")
    make(tmp_path / name)
    with pytest.raises(UsageError, match=name):
        check_own_files(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"mine": 1}', '{"schema": "other/1"}', '{"schema": 1}'])
def test_a_run_json_that_is_not_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=r"run\.json: is there and is no record of a run"):
        check_own_files(tmp_path)


def test_our_own_files(tmp_path: Path) -> None:
    write_run(tmp_path, {}, {})
    merge_results(tmp_path, ["a"], {"a": row("a")})
    check_own_files(tmp_path)


def test_names_that_are_not_utf8_are_recorded(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_run(tmp_path, {"source": name}, {"folder": f"/{name}"})
    document = json.loads((tmp_path / "run.json").read_bytes())
    assert (os.fsencode(document["source"]), document["not_utf8"]) == (b"caf\xe9", "surrogateescape")
    error = InputError(f"{name}/a.wav: cannot write: No space left on device")
    merge_results(tmp_path, ["a"], {"a": failed_row(Refused.of(item("a"), error))})
    assert read_results(tmp_path)["a"]["error"]["what"] == error.what


def test_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"mine": 1}\n')
    (tmp_path / "results.jsonl").symlink_to("mine.jsonl")
    with pytest.raises(UsageError, match=r"results\.jsonl: is a link, and is not replaced"):
        merge_results(tmp_path, ["a"], {"a": row("a")})


@pytest.mark.skipif(os.name != "posix", reason="the lock is POSIX's")
def test_a_folder_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be written to, but not read."""

    def refuses(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(InputError, match="cannot be opened: Permission denied"):
        merge_results(tmp_path, ["a"], {"a": row("a")})


def test_results_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_results(tmp_path) == {}
    (tmp_path / "results.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"results\.jsonl: is not UTF-8 text"):
        merge_results(tmp_path, [], {})


def test_a_run_is_recorded(tmp_path: Path) -> None:
    write_run(tmp_path / "out", {"seed": 1, "text": "é"}, {"started": "now"})
    document = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert document == {"schema": "personaplex.run/1", "seed": 1, "text": "é", "volatile": {"started": "now"}}


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    order = [f"{writer}-{number}" for writer in "ab" for number in range(30)]
    code = (
        "import sys; from pathlib import Path; from personaplex.core.corpus.results import merge_results\n"
        "writer, folder, order = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]\n"
        "for name in [n for n in order if n[0] == writer]:\n"
        "    merge_results(folder, order, {name: {'id': name}})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, writer, str(tmp_path), *order]) for writer in "ab"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert list(read_results(tmp_path)) == order
    assert os.listdir(tmp_path) == ["results.jsonl"]


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    results, run, other = (
        temporary(tmp_path / name).name.replace(str(os.getpid()), str(gone.pid))
        for name in ("results.jsonl", "run.json", "a.wav")
    )
    old_style = [f".results.{gone.pid}.0123abcd.part.jsonl", f".run.{gone.pid}.0123abcd.part.json"]
    stale = [results, run, *old_style]
    alive = results.replace(str(gone.pid), str(os.getppid()))
    others = [alive, other, f".results.{os.getppid()}.0123abcd.part.jsonl", ".results.part.jsonl"]
    for name in (*stale, *others):
        (tmp_path / name).touch()
    merge_results(tmp_path, [], {})
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "results.jsonl"])
