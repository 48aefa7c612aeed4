"""`personaplex compare`: on real runs of the tiny model, one of them with a single token forced."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import junitparser
import numpy as np
import pytest
from safetensors.numpy import load_file

from personaplex.core.sampling.draw import Sampling

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from tests.cli.conftest import Desk

OPTIONS = ("--save-tokens", "--seed", "3")
DELAYS = (0, 0, 1, 1, 1, 1, 1, 1, 1)


@pytest.fixture
def runs(desk: Desk, template: Path) -> Desk:
    """A desk with three calls and their answers in `out`; with the seed 4 in `four`."""
    return desk.made_once(template, make_runs)


def make_runs(desk: Desk) -> None:
    (desk.folder / "calls").mkdir()
    for number, seconds in enumerate((0.8, 1.2, 0.5)):
        desk.sound(f"calls/{number}.wav", desk.noise(seconds, seed=number))
    assert desk.batch("calls", *OPTIONS).code == 0
    assert desk.batch("calls", "--save-tokens", "--seed", "4", out="four").code == 0


def force(patch: pytest.MonkeyPatch, stream: int, frame: int) -> None:
    """From here on, live frame `frame` draws another token in `stream`: 0 is text, 1 to 8 the codebooks."""
    choose = Sampling.choose

    def forced(self: Sampling, logits: Tensor, drawn: int, seed: Tensor, frames: Tensor) -> Tensor:
        tokens = choose(self, logits, drawn, seed, frames)
        return (tokens + 1) % logits.shape[-1] if drawn == stream and int(frames[0]) == frame else tokens

    patch.setattr(Sampling, "choose", forced)


def compared(desk: Desk, code: int, *options: str, runs: tuple[str, str] = ("out", "other")) -> dict[str, Any]:
    result = desk.run("compare", *runs, "--json", *options)
    assert result.code == code, result.err
    document: dict[str, Any] = json.loads(result.out)
    assert document["schema"] == "personaplex.comparison/1"
    assert document["same"] == (code == 0)
    return document


def by_id(document: dict[str, Any]) -> dict[str, Any]:
    return {item["id"]: item for item in document["items"]}


def test_a_run_is_like_itself_and_like_one_with_other_slots(runs: Desk) -> None:
    assert runs.batch("calls", *OPTIONS, "--slots", "1", out="other").code == 0
    document = compared(runs, 0)
    assert document["identity"] == []
    assert document["counts"] | {"items": 3, "failing": 0, "compared": 3} == document["counts"]
    for item in document["items"]:
        assert {verdict["outcome"] for verdict in item["verdicts"].values()} == {"same"}
        assert (item["summary"], item["difference"], item["fails"]) == ("same", None, False)
    shown = runs.run("compare", "out", "other")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "All that answers depend on is the same in both runs: they should be equal, bit for bit.",
        "",
        "3 items are the same at the level of samples",
    ]


@pytest.mark.parametrize(("stream", "name"), [(0, "text"), (1, "codebook 0"), (4, "codebook 3"), (8, "codebook 7")])
def test_a_forced_token_is_found(runs: Desk, stream: int, name: str) -> None:
    """A live frame's text and codebook 0 are those of the output's next frame, since the output is a frame late."""
    with runs.monkeypatch.context() as patch:
        force(patch, stream, frame=4)
        assert runs.batch("calls", *OPTIONS, "--slots", "1", out="other").code == 0
    document = compared(runs, 4)
    assert document["identity"] == []
    frame = 5 - DELAYS[stream]
    for key, item in by_id(document).items():
        difference = item["difference"]
        assert (difference["frame"], difference["stream"]) == (frame, name)
        assert difference["second"] == pytest.approx(0.08 * frame)
        ours, theirs = (
            load_file(runs.folder / run / f"{key}.tokens.safetensors")["tokens"] for run in ("out", "other")
        )
        assert (difference["expected"], difference["got"]) == (ours[frame, stream], theirs[frame, stream])
        assert f"first differs at frame {frame} ({0.08 * frame:.2f} s), {name}" in item["summary"]
        assert item["verdicts"]["tokens"]["outcome"] == item["verdicts"]["samples"]["outcome"] == "different"


def test_other_seeds_differ_where_a_look_at_all_tokens_says(runs: Desk) -> None:
    (runs.folder / "four").rename(runs.folder / "other")
    document = compared(runs, 4)
    assert [(entry["name"], entry["items"]) for entry in document["identity"]] == [("sampling.seed", 3)]
    for key, item in by_id(document).items():
        ours, theirs = (
            load_file(runs.folder / run / f"{key}.tokens.safetensors")["tokens"] for run in ("out", "other")
        )
        drawn = [(frame + DELAYS[stream], stream, frame) for frame, stream in np.argwhere(ours != theirs).tolist()]
        _, stream, frame = min(drawn)
        names = ("text", *(f"codebook {number}" for number in range(8)))
        assert (item["difference"]["frame"], item["difference"]["stream"]) == (frame, names[stream])
    shown = runs.run("compare", "out", "other").out
    assert "The runs can't be expected to be equal:\n  sampling.seed: varies → varies (3 items)\n" in shown
    assert "3 of 3 items failed at the level of samples" in shown


def test_what_runs_have_in_common_is_told(runs: Desk) -> None:
    document = compared(runs, 4, runs=("out", "four"))
    shares: dict[str, list[int]] = {key: [] for key in by_id(document)}
    for key, item in by_id(document).items():
        ours, theirs = (load_file(runs.folder / run / f"{key}.tokens.safetensors")["tokens"] for run in ("out", "four"))
        shares[key] = [int((ours[:, 0] == theirs[:, 0]).sum()), len(ours)]
        assert item["agreement"]["same_text_token"] == pytest.approx(shares[key][0] / len(ours))
        assert item["agreement"]["word_error_rate"] == item["verdicts"]["words"]["word_error_rate"]
    same, frames = map(sum, zip(*shares.values(), strict=True))
    whole = document["agreement"]
    assert (whole["items"], whole["text_frames"], whole["differing"], whole["located"]) == (3, frames, 3, 3)
    assert whole["same_text_token"] == pytest.approx(same / frames)
    first = min((item["difference"]["second"], item["id"]) for item in document["items"])
    assert (whole["first_second"], whole["first_item"]) == first
    shown = runs.run("compare", "out", "four", "--html", "page.html").out
    told = f"the same in {100 * same / frames:.1f} % of {frames} frames"
    assert f"In common, over 3 items:\n  text token        {told}\n" in shown
    assert told in (runs.folder / "page.html").read_text(encoding="utf-8")


def test_levels_forgive_what_lies_above_them(runs: Desk) -> None:
    """A token of the last codebook in the last frame: no word, no time and hardly any loudness hangs on it."""
    with runs.monkeypatch.context() as patch:
        force(patch, 8, frame=9)
        assert runs.batch("calls", *OPTIONS, "--glob", "0.wav", out="other").code == 0
    assert runs.batch("calls", *OPTIONS, "--glob", "0.wav", out="one").code == 0
    assert compared(runs, 4, runs=("one", "other"))["items"][0]["difference"]["frame"] == 9
    for level in ("words", "timing"):
        item = compared(runs, 0, "--level", level, runs=("one", "other"))["items"][0]
        assert item["verdicts"]["tokens"]["outcome"] == "different"
        assert item["summary"].startswith(f"the same at the level of {level}; first differs at frame 9")


def test_missing_extra_and_failed_items(runs: Desk) -> None:
    (runs.folder / "calls" / "0.wav").write_bytes(b"")
    (runs.folder / "calls" / "1.wav").unlink()
    runs.sound("calls/3.wav", runs.noise(0.3))
    assert runs.batch("calls", *OPTIONS, out="other").code == 1
    items = by_id(compared(runs, 4))
    assert {key: item["status"] for key, item in items.items()} == {
        "0": "broken",
        "1": "missing",
        "2": "compared",
        "3": "extra",
    }
    assert [key for key, item in items.items() if item["fails"]] == ["0", "1", "3"]
    assert "is empty" in items["0"]["summary"]
    assert (
        "3 of 4 items failed at the level of samples (1 missing, 1 extra, 1 broken)"
        in runs.run("compare", "out", "other").out
    )


def test_items_without_an_answer_in_both_runs(runs: Desk) -> None:
    (runs.folder / "calls" / "0.wav").write_bytes(b"")
    for out in ("one", "two"):
        assert runs.batch("calls", "--glob", "0.wav", out=out).code == 1
    result = runs.run("compare", "one", "two")
    assert result.code == 0
    assert result.out.splitlines() == [
        "No item has an answer in both runs.",
        "",
        "0 items are the same at the level of samples (1 failed)",
    ]


def test_two_transcripts_of_any_name(runs: Desk) -> None:
    assert runs.run("compare", "out/0.json", "out/0.json").code == 0
    result = runs.run("compare", "out/0.json", "out/1.json")
    assert result.code == 4
    assert "input.sha256" in result.out


def test_reports_are_written(runs: Desk) -> None:
    (runs.folder / "four").rename(runs.folder / "other")
    runs.monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = runs.run("compare", "out", "other", "--junit", "new/report.xml", "--html", "report.html", "--json")
    assert result.code == 4
    json.loads(result.out)  # annotations are no part of it
    assert result.err.count("::error title=") == 3
    report = junitparser.JUnitXml.fromfile(str(runs.folder / "new" / "report.xml"))
    assert (report.tests, report.failures) == (3, 3)
    page = (runs.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<audio") == 6
    assert "::error" not in runs.run("compare", "out", "other", "--no-github").err
    runs.monkeypatch.delenv("GITHUB_ACTIONS")
    assert "::error" not in runs.run("compare", "out", "other").err
    assert "::error" in runs.run("compare", "out", "other", "--github").err


def test_expectations_of_the_manifest_count(runs: Desk) -> None:
    rows = [{"audio_filepath": "calls/0.wav", "id": "0", "expect": {"must_not_say": "/./", "min_words": 1}}]
    for out in ("one", "two"):
        assert runs.batch(runs.manifest(rows), *OPTIONS, out=out).code == 0
    (item,) = compared(runs, 4, runs=("one", "two"))["items"]
    assert item["verdicts"]["tokens"]["outcome"] == "same"
    assert [(one["name"], one["passed"]) for one in item["expectations"]] == [
        ('must_not_say "/./"', False),
        ("min_words 1", True),
    ]
    assert 'must_not_say "/./": said at' in runs.run("compare", "one", "two").out


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda out: shutil.rmtree(out), ("other", "No such file")),
        (lambda out: [path.unlink() for path in out.iterdir()], ("other", "holds no transcripts")),
        (lambda out: [path.rename(out / f"x{path.name}") for path in out.glob("?.json")], ("have no item in common",)),
        (lambda out: (out / "1.json").write_text('{"schema": "personaplex.tra'), ("1.json", "not whole JSON")),
        (lambda out: (out / "1.json").write_text('{"schema": "personaplex.transcript/2"}'), ("1.json", "transcript/2")),
        (
            lambda out: (out / "1.json").write_text('{"schema": "personaplex.transcript/1"}'),
            ("1.json", "Field required"),
        ),
        (
            lambda out: (out / "1.tokens.safetensors").write_bytes(b"xx"),
            ("1.tokens.safetensors", "not a file of tokens"),
        ),
    ],
    ids=["gone", "empty", "others", "cut off", "another schema", "fields missing", "broken tokens"],
)
def test_runs_that_cannot_be_compared(runs: Desk, spoil: Any, words: tuple[str, ...]) -> None:
    (runs.folder / "four").rename(runs.folder / "other")
    for name in ("results.jsonl", "run.json"):
        (runs.folder / "other" / name).unlink()
    spoil(runs.folder / "other")
    result = runs.run("compare", "out", "other")
    assert (result.code, result.out) == (2, "")
    assert all(word in result.err for word in words), result.err
    assert len(result.errors) == 2


def test_a_folder_and_a_file(runs: Desk) -> None:
    result = runs.run("compare", "out", "out/0.json")
    assert result.code == 2
    assert "one is a folder" in result.errors[0]


def test_a_report_that_cannot_be_written(runs: Desk) -> None:
    (runs.folder / "file").write_text("")
    result = runs.run("compare", "out", "out", "--junit", "file/report.xml")
    assert result.code == 1
    assert "cannot write" in result.errors[0]
    assert "3 items are the same" in result.out, "the verdict is not lost"


def test_samples_of_another_format_are_not_the_same(runs: Desk) -> None:
    assert runs.batch("calls", *OPTIONS, "--output-subtype", "PCM_24", out="other").code == 0
    items = compared(runs, 4)["items"]
    assert {item["verdicts"]["samples"]["outcome"] for item in items} == {"unknown"}
    assert all("different output formats" in item["summary"] for item in items)
    assert compared(runs, 0, "--level", "tokens")["same"]


@pytest.mark.parametrize("option", ["--max-wer", "--loudness-tolerance", "--activity-tolerance"])
def test_tolerances_are_finite(runs: Desk, option: str) -> None:
    for value in ("inf", "nan"):
        result = runs.run("compare", "out", "out", option, value)
        assert (result.code, result.out) == (2, "")
