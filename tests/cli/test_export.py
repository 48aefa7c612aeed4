"""`personaplex export`: on real runs of the tiny model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import soundfile

from personaplex.exports.export import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk


@pytest.fixture
def run(desk: Desk, template: Path) -> Desk:
    """A desk with three calls, answered in `out`."""
    return desk.made_once(template, make_run)


def make_run(desk: Desk) -> None:
    (desk.folder / "calls").mkdir()
    for number, seconds in enumerate((0.8, 1.2, 0.5)):
        desk.sound(f"calls/{number}.wav", desk.noise(seconds, seed=number))
    assert desk.batch("calls", "--save-tokens").code == 0


@pytest.mark.parametrize("to", FORMATS)
def test_every_format(run: Desk, to: str) -> None:
    result = run.run("export", "out", "--to", to, "-o", "data")
    assert (result.code, result.err) == (0, "")
    assert result.out == f"exported  3 calls to data ({to})\n"
    assert any((run.folder / "data").iterdir())


def test_the_help_names_every_format(run: Desk) -> None:
    shown = " ".join(run.run("export", "--help").out.replace("│", " ").split())
    assert f"{', '.join(list(FORMATS)[:-1])} or {list(FORMATS)[-1]}" in shown


def test_splits(run: Desk) -> None:
    result = run.run("export", "out", "--to", "nemo", "-o", "data", "--split", "train=0.67,test=0.33")
    assert result.out == "exported  3 calls to data (nemo)\n  train   2\n  test    1\n"
    assert sorted(path.name for path in (run.folder / "data").iterdir()) == ["test", "train"]
    again = run.run("export", "out", "--to", "nemo", "-o", "more", "--split", "train=0.9,test=0.1", "--seed", "5")
    assert "the split test is empty: there are too few callers" in again.err


def test_what_is_left_out_is_told_and_counted(run: Desk) -> None:
    """A call that failed in the run is no fault of the export; one whose recording has gone is."""
    (run.folder / "calls" / "bad.wav").write_bytes(b"")
    assert run.batch("calls", "--save-tokens").code == 1
    result = run.run("export", "out", "--to", "nemo", "-o", "data")
    assert result.code == 0
    assert result.out.splitlines()[1] == "failed    1 in the run, and not in the data set"
    assert "bad: left out, since it failed in the run: calls/bad.wav: is empty (0 bytes)" in result.err
    (run.folder / "calls" / "1.wav").unlink()
    missing = run.run("export", "out", "--to", "nemo", "-o", "more", "--json")
    document = json.loads(missing.out)
    assert missing.code == 1
    assert (document["exported"], document["splits"]) == (2, {"all": 2})
    assert [one["id"] for one in document["failed"]] == ["bad"]
    assert [one["id"] for one in document["left_out"]] == ["1"]
    assert "1: left out: the caller's recording 1.wav is not there" in missing.err


def test_nothing_to_export(run: Desk) -> None:
    assert run.batch("calls", out="here").code == 0
    for recording in (run.folder / "calls").iterdir():
        recording.unlink()
    result = run.run("export", "here", "--to", "nemo", "-o", "data")
    assert (result.code, result.out) == (2, "")
    assert "none of its calls can be exported, such as 0: the caller's recording 0.wav is not there" in result.errors[0]
    assert "--callers" in result.errors[1]
    assert not (run.folder / "data").exists()


def test_a_mix_holds_the_callers(run: Desk) -> None:
    assert run.batch("calls", "--mix", out="mixed").code == 0
    for recording in (run.folder / "calls").iterdir():
        recording.unlink()
    assert run.run("export", "mixed", "--to", "lhotse-shar", "-o", "data").code == 0


def test_a_transcript_of_offline(run: Desk) -> None:
    """Its recording is found from the folder that the command runs in, as it was then."""
    (run.folder / "one").mkdir()
    assert run.offline("--output-wav", "one/a.wav", "--output-text", "one/a.json", call="calls/0.wav").code == 0
    assert run.run("export", "one", "--to", "audacity", "-o", "data").code == 0
    assert (run.folder / "data" / "audio" / "a.words.txt").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "kaldi"), '--to "kaldi" is not a format'),
        (("--to", "webdataset", "--link"), "--link: webdataset holds its sound itself"),
        (("--to", "nemo", "--split", "train"), '--split: "train" is not a name and a share'),
        (("--to", "nemo", "--callers", "nowhere"), "nowhere"),
    ],
)
def test_what_makes_no_sense(run: Desk, options: tuple[str, ...], message: str) -> None:
    result = run.run("export", "out", "-o", "data", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not (run.folder / "data").exists()


def test_conversations(desk: Desk) -> None:
    """Both sides' words are known, those of the caller too."""
    sides = {"a": {"text_prompt": "You sell cats."}, "b": {"text_prompt": "You buy a cat."}}
    rows = [{"id": name, "seconds": 0.96, **sides} for name in ("one", "two")]
    talk = ("talk", desk.manifest(rows), "-o", "talks", "--model", "tiny", "--voice-prompt", "voice.wav")
    assert desk.run(*talk).code == 0
    assert desk.run("export", "talks", "--to", "nemo", "-o", "data").code == 0
    made = (desk.folder / "data" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, made):
        assert (row["text"], row["caller_text"]) == tuple(desk.rows("talks")[row["id"]]["text"].values())


class TestFullDuplexBench:
    """In as a source and out as an export, then scored as the benchmark's published rules say."""

    @pytest.fixture
    def bench(self, desk: Desk) -> Desk:
        annotations: dict[str, tuple[str, Any]] = {
            "candor_turn_taking/1": ("turn_taking.json", [{"text": "[turn-taking]", "timestamp": [0.4, 0.8]}]),
            "candor_turn_taking/2": ("turn_taking.json", [{"text": "[turn-taking]", "timestamp": [1.0, 1.4]}]),
            "synthetic_user_interruption/1": (
                "interrupt.json",
                [{"context": "Tell me of cats.", "interrupt": "Or dogs?", "timestamp": [0.8, 1.2]}],
            ),
        }
        for number, (sample, (name, content)) in enumerate(annotations.items()):
            folder = desk.folder / "bench" / sample
            folder.mkdir(parents=True)
            desk.sound(f"bench/{sample}/input.wav", desk.noise(2.4, seed=number))
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        assert desk.batch("bench").code == 0
        return desk

    def test_in_and_out(self, bench: Desk) -> None:
        assert list(bench.rows()) == [
            *("candor_turn_taking/1", "candor_turn_taking/2", "synthetic_user_interruption/1")
        ]
        assert bench.run("export", "out", "--to", "full-duplex-bench", "-o", "data").code == 0
        for path in (bench.folder / "bench").rglob("*.*"):
            copy = bench.folder / "data" / path.relative_to(bench.folder / "bench")
            if path.suffix == ".json":
                assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(path.read_text(encoding="utf-8"))
            else:
                assert copy.read_bytes() == path.read_bytes()

    def test_scored(self, bench: Desk) -> None:
        """`tiny` babbles without a pause: it takes every turn, before the caller has ended it."""
        assert bench.run("export", "out", "--to", "full-duplex-bench", "-o", "data").code == 0
        turns = bench.folder / "data" / "candor_turn_taking"
        assert smooth_turn_taking(turns) == (1.0, 0.0)
        interruptions = bench.folder / "data" / "synthetic_user_interruption"
        rate, latency = user_interruption(interruptions)
        first = next(
            word["start"]
            for segment in bench.document("out/synthetic_user_interruption/1.json")["segments"]
            for word in segment["words"]
            if word["start"] >= 1.2
        )
        assert (rate, latency) == (1.0, pytest.approx(first - 1.2))
        for folder in turns.iterdir():
            lengths = [soundfile.info(folder / name).duration for name in ("input.wav", "output.wav")]
            assert lengths[0] == lengths[1], "they are one clock's"

    def test_again_as_a_source(self, bench: Desk) -> None:
        """An export is a folder of the benchmark too: its answers are no callers."""
        assert bench.run("export", "out", "--to", "full-duplex-bench", "-o", "data").code == 0
        assert bench.batch("data", out="again").code == 0
        ours, theirs = (
            {name: row["tokens_sha256"] for name, row in bench.rows(out).items()} for out in ("out", "again")
        )
        assert ours == theirs


def smooth_turn_taking(folder: Path) -> tuple[float, float]:
    """The benchmark's take-over rate, and its mean latency from where the caller's turn ends."""
    return scored(folder, lambda sample: float(load(sample / "turn_taking.json")[0]["timestamp"][0]))


def user_interruption(folder: Path) -> tuple[float, float]:
    """The same from where the interruption ends."""
    return scored(folder, lambda sample: float(load(sample / "interrupt.json")[0]["timestamp"][1]))


def scored(folder: Path, end: Any) -> tuple[float, float]:
    taken, latencies = [], []
    for sample in sorted(folder.iterdir()):
        chunks = load(sample / "output.json")["chunks"]
        lasts = chunks[-1]["timestamp"][-1] - chunks[0]["timestamp"][0] if chunks else 0.0
        taken.append(bool(chunks) and (lasts >= 1 or len(chunks) > 3))
        if taken[-1]:
            latencies.append(max(0.0, chunks[0]["timestamp"][0] - end(sample)))
    return sum(taken) / len(taken), sum(latencies) / len(latencies)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
