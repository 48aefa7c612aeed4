"""Reading runs: what stands in a folder, and what is said of files that can't be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from personaplex.compare.recorded import read_run, read_transcript
from personaplex.core.errors import UsageError


def test_a_folder_is_walked_and_other_files_are_passed_over(tmp_path: Path, document: Any, write_run: Any) -> None:
    folder = write_run(tmp_path, {"b": document(), "a/1.x": document("Hello.")}, failed={"a/2": "it is no WAV"})
    (folder / "run.json").write_text('{"schema": "personaplex.run/1"}')
    (folder / "b.frames.json").write_text('["PAD"]')
    (folder / "null.json").write_text("null")
    (folder / ".b.1.00000000.part.json").write_text('{"schema": "personaplex.tra')
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "c.json").write_text(json.dumps(document()))
    run = read_run(folder)
    assert list(run) == [item.id for item in run.values()] == ["a/1.x", "a/2", "b"]
    assert run["a/1.x"].document["text"] == "Hello."
    assert run["a/2"].document is None
    assert run["a/2"].failure == "it is no WAV"


def test_files_beside_a_transcript_are_found_by_the_outputs_name(
    tmp_path: Path, document: Any, write_run: Any, some_tokens: Any
) -> None:
    wav = np.zeros(10, np.float32)
    run = read_run(write_run(tmp_path, {"a": document(), "b": document()}, tokens={"a": some_tokens}, audio={"a": wav}))
    assert run["a"].tokens == tmp_path / "a.tokens.safetensors"
    assert run["a"].audio == tmp_path / "a.wav"
    assert run["b"].tokens is run["b"].audio is None


@pytest.mark.parametrize("path", ["../secret.wav", "/etc/secret.wav", "..", "", "a\0b", "x" * 5000, "out/secret.wav"])
def test_an_outputs_path_leads_nowhere_else(path: str, tmp_path: Path, document: Any) -> None:
    (tmp_path / "secret.wav").touch()
    (tmp_path / "run" / "out").mkdir(parents=True)
    (tmp_path / "run" / "out" / "secret.wav").touch()
    (tmp_path / "run" / "a.json").write_text(json.dumps(document(output={"path": path})))
    assert read_run(tmp_path / "run")["a"].audio is None


def test_a_failed_row_counts_more_than_what_an_earlier_run_left(tmp_path: Path, document: Any, write_run: Any) -> None:
    run = read_run(write_run(tmp_path, {"a": document(), "b": document()}, failed={"a": "now"}))
    assert (run["a"].document, run["a"].failure) == (None, "now")
    assert run["b"].document is not None


def test_expectations_come_from_the_rows(tmp_path: Path, document: Any, write_run: Any) -> None:
    asked = {"must_say": "refund", "min_words": 2}
    run = read_run(write_run(tmp_path, {"a": document()}, failed={"b": "no"}, expect={"a": asked, "b": asked}))
    assert run["a"].expect == run["b"].expect == asked


@pytest.mark.parametrize("asked", [3, {"must_sai": "x"}, {"must_say": ["/(/"]}, {"min_words": "many"}])
def test_an_expectation_that_makes_no_sense_is_named(asked: Any, tmp_path: Path, document: Any, write_run: Any) -> None:
    with pytest.raises(UsageError, match=r"results\.jsonl, a: expect: "):
        read_run(write_run(tmp_path, {"a": document()}, expect={"a": asked}))


@pytest.mark.parametrize("error", [None, "text", {}, {"what": 3}])
def test_a_failed_row_without_a_reason_is_a_failure_still(error: Any, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(json.dumps({"id": "a", "status": "failed", "error": error}))
    assert read_run(tmp_path)["a"].failure


def test_rows_that_no_batch_wrote_are_passed_over(tmp_path: Path, document: Any, write_run: Any) -> None:
    folder = write_run(tmp_path, {"a": document()})
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"id": 3, "status": "failed"}\n["id"]\n{"id": "b", "sta')
    assert list(read_run(folder)) == ["a"]


def test_a_folder_without_transcripts_is_empty(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": "personaplex.run/1"}')
    assert read_run(tmp_path) == {}


def test_a_file_is_one_item(tmp_path: Path, document: Any) -> None:
    (tmp_path / "one.agent.json").write_text(json.dumps(document()))
    run = read_run(tmp_path / "one.agent.json")
    assert list(run) == ["one.agent"]
    assert run["one.agent"] == read_transcript(tmp_path / "one.agent.json")


def test_transcripts_of_older_versions_lack_some_fields(tmp_path: Path, document: Any) -> None:
    old = {key: value for key, value in document().items() if key not in ("activity", "flags")}
    (tmp_path / "a.json").write_text(json.dumps(old))
    assert read_run(tmp_path)["a"].document == old


def _without(*path: str) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        for key in path[:-1]:
            made = made[key]
        del made[path[-1]]

    return change


def _with(value: Any, *path: Any) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        for key in path[:-1]:
            made = made[key]
        made[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_without("text"), "text: "),
        (_without("segments"), "segments: "),
        (_with([{"id": 0}], "segments"), "segments.0.words: "),
        (_with({"word": "a", "start": "1", "end": 2}, "segments", 0, "words", 1), "segments.0.words.1.start: "),
        (_with([3, 2.5], "text_tokens"), "text_tokens.1: "),
        (_with([3, 2**40], "text_tokens"), "text_tokens.1: "),
        (_with([[1] * 9, [1] * 8], "tokens"), "tokens.1: "),
        (_with(None, "tokens_sha256"), "tokens_sha256: "),
        (_with(None, "output"), "output: "),
        (_without("output", "pcm_sha256"), "output.pcm_sha256: "),
        (_with(float("nan"), "output", "rms_dbfs"), "output.rms_dbfs: "),
        (_with(0, "output", "sample_rate"), "output.sample_rate: "),
        (_with("long", "input", "duration"), "input.duration: "),
        (_with([[0.0]], "activity", "agent"), "activity.agent.0: "),
        (_with({"kind": 1}, "flags"), "flags: "),
        (_with([], "sampling"), "sampling: "),
        (_with({"torch": 2}, "engine", "versions"), "engine.versions.torch: "),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named(
    change: Callable[[Any], None], named: str, tmp_path: Path, document: Any
) -> None:
    made = document()
    change(made)
    file = tmp_path / "a.json"
    file.write_text(json.dumps(made))
    for path in (tmp_path, file):
        with pytest.raises(UsageError) as caught:
            read_run(path)
        assert caught.value.what.startswith(f"{file}: not a whole transcript: {named}")
        assert caught.value.mend


def test_only_the_first_faults_are_told(tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document(text_tokens=["x"] * 100)))
    with pytest.raises(UsageError, match="; and 95 more\n") as caught:
        read_run(tmp_path)
    assert caught.value.what.count("text_tokens.") == 5


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": "personaplex.transcript/1", "id"', b"RIFF\xff\xfe", b"[" * 100_000]
)
def test_a_file_that_is_not_json_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    for path in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(UsageError, match=r"a\.json: not whole JSON"):
            read_run(path)


@pytest.mark.parametrize("text", ["\\ud800", "\\uD83D and no more"])
def test_a_text_that_can_not_be_written_again_is_refused(text: str, tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document("HALF")).replace("HALF", text))
    with pytest.raises(UsageError, match=r"a\.json: .*surrogates"):
        read_run(tmp_path)


def test_a_text_of_any_script_is_read(tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document("日本 😀")))
    assert read_transcript(tmp_path / "a.json").document["text"] == "日本 😀"


def test_a_transcript_of_another_version_says_which(tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document(schema="personaplex.transcript/2")))
    for path in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(UsageError, match=r'"personaplex\.transcript/2", this version reads "personaplex\.tr'):
            read_run(path)


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"schema": 3}', '{"schema": "personaplex.run/1"}'])
def test_a_file_of_another_kind_is_no_transcript(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UsageError, match="not a transcript"):
        read_run(tmp_path / "a.json")


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: No such file"):
        read_run(tmp_path / "nowhere")
