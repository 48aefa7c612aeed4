"""What makes no sense is told before any model is loaded, and nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.weights import model as models
from personaplex.samples import tiny

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Desk

CALL = {"audio_filepath": "call.wav"}


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def load(*_: Any, **__: Any) -> None:
        pytest.fail("a model was loaded")

    monkeypatch.setattr(tiny, "load", load)
    monkeypatch.setattr(models, "load", load)
    monkeypatch.setattr(models, "locate", load)
    return


def refused(desk: Desk, source: str | Path, *options: str, code: int = 2, out: str = "out") -> str:
    """The error, on one line, of a batch that must end with `code` and leave no file behind."""
    before = {name: (desk.folder / name).read_bytes() for name in desk.names() if (desk.folder / name).is_file()}
    result = desk.batch(source, *options, out=out)
    error = " | ".join(result.errors)
    assert (result.code, result.out) == (code, ""), error
    after = {name: (desk.folder / name).read_bytes() for name in desk.names() if (desk.folder / name).is_file()}
    assert after == before
    return error


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{}], "calls.jsonl: row 1, audio_filepath: Field required"),
        ([CALL, CALL], 'the id "call" stands for several items: calls.jsonl, row 1, calls.jsonl, row 2'),
        ([CALL | {"id": "../x"}], 'calls.jsonl, row 1: the id "../x" can\'t name output files'),
        ([CALL | {"id": "results"}, CALL | {"id": "run"}], "calls.jsonl, row 2 and the run itself would both write"),
        ([CALL | {"id": "a"}, CALL | {"id": "a.wav/b"}], "calls.jsonl, row 2 would write into out/a.wav, a file of"),
        ([CALL | {"id": "a.wav/b"}, CALL | {"id": "a"}], "calls.jsonl, row 1 would write into out/a.wav, a file of"),
        ([CALL | {"id": "run.json/a"}], "calls.jsonl, row 1 would write into out/run.json, a file of the run itself"),
        ([CALL, CALL | {"id": "b", "role": "clinc"}], 'calls.jsonl, row 2: no role is called "clinc"'),
        ([CALL | {"role": "clinic"}], 'calls.jsonl, row 1: role "clinic" lacks a value for'),
        ([CALL | {"role": "teacher", "fields": {"x": "y"}}], 'calls.jsonl, row 1: role "teacher" has no field x'),
        ([CALL | {"fields": {"x": "y"}}], "calls.jsonl, row 1: fields fill in a role"),
        ([CALL | {"role": "teacher", "text_prompt": "Hi."}], "calls.jsonl, row 1: --text-prompt"),
        ([CALL | {"text_prompt_file": "none.txt"}], "calls.jsonl, row 1: --text-prompt-file none.txt: No such file"),
        ([CALL | {"channel": "up"}, CALL | {"seed": -1}], "calls.jsonl: row 1, channel: String should match"),
    ],
)
def test_rows(desk: Desk, rows: list[dict[str, Any]], fault: str) -> None:
    desk.manifest(rows)
    assert refused(desk, "calls.jsonl").startswith(f"error: {fault}")


def test_unknown_voices(desk: Desk) -> None:
    desk.manifest([CALL, CALL | {"id": "b", "voice_prompt": "NATM9"}])
    error = refused(desk, "calls.jsonl", code=3)
    assert error.startswith("error: calls.jsonl, row 2: voice 'NATM9' is unknown")
    assert "did you mean NATM" in error
    assert "voice 'nobody.wav' is unknown" in refused(desk, desk.manifest([CALL]), "--voices", "nobody.wav", code=3)


def test_a_catalogue_voice_that_the_model_does_not_have(desk: Desk) -> None:
    desk.manifest([CALL, CALL | {"id": "b", "voice_prompt": "NATM1"}])
    assert 'the model "tiny" comes with no voices' in refused(desk, "calls.jsonl", code=3)


def test_no_voice_at_all(desk: Desk) -> None:
    desk.manifest([CALL])
    result = desk.run("batch", "calls.jsonl", "-o", "out", "--model", "tiny")
    assert result.code == 2
    assert result.errors[0] == "error: calls.jsonl, row 1: no voice is chosen"


def test_outputs_never_replace_what_is_read(desk: Desk) -> None:
    desk.manifest([CALL])
    assert "an output would replace call.wav" in refused(desk, "calls.jsonl", out=".")
    desk.manifest([CALL | {"id": "voice"}])
    assert "an output would replace voice.wav" in refused(desk, "calls.jsonl", out=".")
    desk.manifest([CALL | {"id": "a"}], "results.jsonl")
    assert "an output would replace results.jsonl" in refused(desk, "results.jsonl", out=".")
    (desk.folder / "linked").symlink_to(desk.folder)
    desk.manifest([CALL | {"audio_filepath": "linked/call.wav", "id": "call"}])
    assert "an output would replace linked/call.wav" in refused(desk, "calls.jsonl", out=".")
    assert "would lie among the inputs" in refused(desk, ".", out=".")


def test_mixes_and_exports_may_clash_too(desk: Desk) -> None:
    desk.manifest([CALL | {"id": "a"}, CALL | {"id": "a.mix"}])
    assert "would both write out/a.mix.wav" in refused(desk, "calls.jsonl", "--mix")
    desk.manifest([CALL | {"id": "a"}, CALL | {"id": "a.frames"}])
    assert "would both write out/a.frames.json" in refused(desk, "calls.jsonl", "--format", "frames")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--channel", "up"), '--channel "up" is unknown'),
        (("--shard", "0/2"), '--shard "0/2" makes no sense'),
        (("--shard", "3/2"), '--shard "3/2" makes no sense'),
        (("--shard", "²/2"), '--shard "²/2" makes no sense'),
        (("--shard", "1"), '--shard "1" makes no sense'),
        (("--seeds", "1,x"), '--seeds: "x" is not a seed'),
        (("--seeds", "1,1"), 'the id "call.seed1" stands for several items'),
        (("--seeds", str(2**63)), f"--seed {2**63} is too large"),
        (("--roles", "nobody"), 'calls.jsonl, row 1: no role is called "nobody"'),
        (("--glob", "*.wav"), "--glob chooses files in a directory"),
        (("--fail-fast", "--max-failures", "3"), "--fail-fast and --max-failures exclude each other"),
        (("--slots", "0"), "Invalid value for '--slots'"),
        (("--existing", "maybe"), "Invalid value for '--existing'"),
        (("--format", "doc"), '--format: "doc" is not a format'),
        (("--output-subtype", "MP3"), '--output-subtype "MP3" is unknown'),
    ],
)
def test_options(desk: Desk, options: tuple[str, ...], fault: str) -> None:
    desk.manifest([CALL])
    assert refused(desk, "calls.jsonl", *options).startswith(f"error: {fault}")


@pytest.mark.parametrize("source", ["none.jsonl", "nowhere", "call.wav"])
def test_sources(desk: Desk, source: str) -> None:
    assert refused(desk, source).startswith(f"error: {source}: ")


def test_the_output_folder_is_a_file(desk: Desk) -> None:
    desk.manifest([CALL])
    assert refused(desk, "calls.jsonl", out="voice.wav").startswith("error: -o voice.wav is not a folder")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_dry_run_finds_the_same(desk: Desk, options: tuple[str, ...]) -> None:
    desk.manifest([CALL, CALL])
    assert "stands for several items" in refused(desk, "calls.jsonl", "--dry-run", *options)


def test_a_dry_run_loads_and_writes_nothing(desk: Desk) -> None:
    (desk.folder / "empty.wav").touch()
    desk.manifest([CALL, {"audio_filepath": "empty.wav"}, CALL | {"id": "b", "offset": 0.25}])
    before = desk.names()
    result = desk.batch("calls.jsonl", "--dry-run", "--slots", "2")
    assert (result.code, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[:5] == [
        "items 3",
        "skipped 0 (done already)",
        "unreadable 1",
        "to run 2: 0.00 hours of audio, 11 frames",
        "longest call 7 frames, 0.6 s",
    ]
    assert lines[-1] == "would fail empty.wav: is empty (0 bytes)"
    result = desk.batch("calls.jsonl", "--dry-run", "--json", "--slots", "2")
    plan = json.loads(result.out)
    assert (plan["items"], plan["to_run"], plan["unreadable"], plan["frames"], plan["slots"]) == (3, 2, 1, 11, 2)
    assert plan["unreadable_files"] == ["empty.wav: is empty (0 bytes)"]
    assert plan["audio_hours"] == round(11 * 0.08 / 3600, 4)
    assert desk.names() == before
