"""Tables, figures and error texts of the user's documents, held against the code that they speak of."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from personaplex import api
from personaplex.cli import comparison, interrupts
from personaplex.cli.main import run
from personaplex.core.answers import flags, transcript
from personaplex.core.answers.exports import EXPORTERS, Transcript
from personaplex.core.audio import activity, levels, power
from personaplex.core.config import FRAME_RATE, PERSONAPLEX_7B, seconds
from personaplex.core.corpus import expect, manifest, results
from personaplex.core.errors import InputError, ModelError, PersonaplexError, StorageError, UsageError, VoiceError
from personaplex.core.machine import memory
from personaplex.core.measures import bootstrap, events, figures, pooled, tracks
from personaplex.core.measures import rows as measures
from personaplex.core.nn import int8
from personaplex.core.sampling import draw

ROOT = Path(__file__).parents[1]
CALL, VOICE = ROOT / "samples/calls/repair.wav", ROOT / "samples/voices/agent_f.wav"
GIB = 2**30
PYTHON = [("## What to set", 0, api.Call), ("## What to set", 1, api.Settings)]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or a higher one."""
    level = heading.partition(" ")[0]
    _, found, after = text_of(name).partition(f"\n{heading}\n")
    assert found, f"{name} has no {heading}"
    return re.split(rf"^#{{1,{len(level)}}} ", after, maxsplit=1, flags=re.M)[0]


def table(text: str) -> list[list[str]]:
    """The cells of the first table, without its header."""
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.M)
    assert lines
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[0].splitlines()[2:]]


def names(text: str, column: int = 0) -> list[str]:
    """The code in a column of the first table."""
    return [name for cells in table(text) for name in re.findall(r"`([^`]+)`", cells[column])]


def example(kind: str) -> str:
    """An example of docs/transcript.md."""
    found = re.search(rf"<!-- example: {kind} -->\n```\w+\n(.*?)^```$", text_of("docs/transcript.md"), re.M | re.S)
    assert found
    return found[1]


def personaplex(*arguments: str | Path) -> int:
    """Run the command in this process; gives its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["personaplex", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, the environment free of settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERSONAPLEX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_VERBOSITY", "error")
    return tmp_path


class TestManifest:
    def test_keys(self) -> None:
        described = names(section("docs/manifest.md", "## Keys"))
        assert len(described) == len(set(described))
        assert set(described) - {"input_wav"} == manifest.Row.model_fields.keys()

    def test_expectations(self) -> None:
        assert names(section("docs/manifest.md", "## Expectations")) == list(expect.Expect.model_fields)

    def test_results(self) -> None:
        rows = [
            {"audio_filepath": str(CALL), "duration": 0.5, "expect": {"min_words": 1}, "own": 1},
            {"audio_filepath": "nix.wav"},
        ]
        Path("calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert personaplex("batch", "calls.jsonl", "-o", "out", "--model", "tiny", "--voice-prompt", VOICE) == 1
        done, failed = map(json.loads, Path("out/results.jsonl").read_text().splitlines())
        assert next(iter(done)) == "own"
        described = table(section("docs/manifest.md", "### `results.jsonl`"))
        of = {name: cells[1] for cells in described for name in re.findall(r"`(\w+)`", cells[0])}
        assert {name for name, which in of.items() if which != "failed"} == done.keys() - {"own"}
        assert {name for name, which in of.items() if which in ("all", "failed")} == failed.keys()
        assert set(of) - {"expect"} == results.OWN_KEYS
        recorded = json.loads(Path("out/run.json").read_text())
        parts = names(section("docs/manifest.md", "### `run.json`"))
        assert parts == list(recorded)


class TestTranscript:
    def test_fields(self) -> None:
        row = {"audio_filepath": str(CALL), "offset": 0.1, "duration": 0.5}
        Path("calls.jsonl").write_text(json.dumps(row))
        assert personaplex("batch", "calls.jsonl", "-o", "out", "--model", "tiny", "--voice-prompt", VOICE) == 0
        soundfile.write("call.wav", 0.1 * np.random.default_rng(1).standard_normal(12_000), 24_000)
        options = ("--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", VOICE, "--pace", "realtime")
        assert personaplex("offline", *options) == 0
        made = [next(Path("out").rglob("*@*.json")), Path("call.agent.json")]
        fields = {field: None for path in made for field in flat(json.loads(path.read_text(encoding="utf-8")))}
        fields |= {f"flags[].{field.name}": None for field in dataclasses.fields(flags.Flag)}
        described = names(section("docs/transcript.md", "## Fields").partition("\nAll fields")[2])
        assert set(described) == set(fields) - {"flags"}
        assert len(described) == len(set(described))

    def test_examples(self) -> None:
        document, frames = json.loads(example("transcript")), json.loads(example("frames"))
        segments = [
            transcript.Segment(**{**segment, "words": [transcript.Word(**word) for word in segment["words"]]})
            for segment in document["segments"]
        ]
        whole = Transcript(document["id"], segments, frames)
        assert document["text"] == " ".join(segment.text for segment in segments)
        for kind, exporter in EXPORTERS.items():
            if kind == "frames":
                assert json.loads(exporter.render(whole)) == frames
            else:
                assert example(kind) in exporter.render(whole)
        for word in (word for segment in segments for word in segment.words):
            assert word.word.startswith(frames[word.frame].strip())
            assert word.start == seconds(word.frame)

    def test_formats(self) -> None:
        described = re.findall(r"^\*\*`(\w+)`\*\*:", section("docs/transcript.md", "## Exports"), re.M)
        assert described == list(EXPORTERS)

    def test_flags(self) -> None:
        text = section("docs/transcript.md", "## Flags")
        assert names(text) == re.findall(r"^- `(\w+)`:", inspect.getdoc(flags.find_flags) or "", re.M)
        for said in (
            f"one word {flags.REPEATS[1]} times in a row or more, two words {flags.REPEATS[2]} times",
            f"three to eight words {flags.REPEATS[3]} times",
            f"without pauses of {flags.REPLY_GAP:g} s",
            f"in more than {flags.STUCK_FRAMES} frames in a row",
            f"until {flags.SOUND_WAIT} s after it",
            f"more than {flags.UNEXPLAINED_SOUND:g} s of sound",
        ):
            assert said in text
        assert list(flags.REPEATS.items())[2:] == [(words, flags.REPEATS[3]) for words in range(3, 9)]
        assert flags.REPLY_WORDS == 2

    def test_activity(self) -> None:
        text = section("docs/transcript.md", "## Activity")
        for said in (
            f"over −{-levels.QUIET_DBFS:g} dBFS",
            f"no more than {activity.SPEECH_RANGE_DB:g} dB under",
            f"their {activity.LOUD_PERCENTILE}th percentile",
            f"shorter than {activity.SEGMENT_GAP} s do not end",
            f"shorter than {activity.SHORTEST_STRETCH} s is left out",
        ):
            assert said in " ".join(text.split())


class TestMeasures:
    def test_units_and_turns(self) -> None:
        text = " ".join(section("docs/measures.md", "## From sound to turns").split())
        for said in (
            f"windows of {1000 / power.WINDOWS:g} ms",
            f"over −{-levels.QUIET_DBFS:g} dBFS",
            f"no more than {activity.SPEECH_RANGE_DB:g} dB under",
            f"a pause of {tracks.UNIT_PAUSE} s or more; under {tracks.SHORTEST_UNIT} s it is a click",
            f"less than {tracks.TURN_PAUSE:g} s of silence",
            f"within {tracks.WORD_REACH} s",
        ):
            assert said in text

    def test_events(self) -> None:
        text = section("docs/measures.md", "## Events")
        fields = {field.name for field in dataclasses.fields(events.Event)}
        assert names(text) == list(events.Kind)
        assert {name for cells in table(text) for name in re.findall(r"`([^`]+)`", cells[1])} <= fields
        for said in (
            f"under {events.SHORT:g} s in all with at most {events.NO_TAKEOVER_WORDS} words",
            f"{events.INSIDE} s or more after its start, and {events.INSIDE} s or more before its end",
            f"({events.SHORT:g} s or more, or over {events.BACKCHANNEL_WORDS} words)",
            f"within {events.YIELD_WITHIN:g} s",
            f"under {events.SHORT:g} s with at most {events.BACKCHANNEL_WORDS} words",
            f"for {events.DEAD_AIR:g} s or more",
            f"the call ends within {tracks.TURN_PAUSE:g} s",
        ):
            assert said in " ".join(text.split())

    def test_figures(self) -> None:
        text = section("docs/measures.md", "## Figures")
        whose = {"each side": "side", "both": "both", "the agent": "listener", "both, each side": "either"}
        described = {name: whose[cells[1]] for cells in table(text) for name in re.findall(r"`(\w+)`", cells[0])}
        assert described.keys() == figures.DEFINITIONS.keys()
        assert described == {name: one.of.value for name, one in figures.DEFINITIONS.items()}
        assert f"fewer than {pooled.FEW} events" in text
        text = section("docs/measures.md", "## Two runs")
        assert f"{100 * bootstrap.SHARE:.0f} % of {bootstrap.DRAWS:,} draws" in text

    def test_rows(self) -> None:
        made = measures.Made("a", "v", "r", 1, "energy", 0.08, "0", "0")
        call = measures.Call(made, pooled.Measured(1.0, ("caller", "agent"), ("agent",), {}, []))
        failed = measures.failed_row("a", InputError("what", "mend"))
        assert set(names(section("docs/measures.md", "## Rows of `measures.jsonl`"))) == {*call.row, *failed}


def flat(value: Any, above: str = "") -> Iterator[str]:
    """Dotted names of a document's fields; `[]` stands for a list's objects, and open mappings end a name."""
    if isinstance(value, dict) and above not in {"engine.versions", "files", "volatile.phases"}:
        for name, inner in value.items():
            yield from flat(inner, f"{above}.{name}" if above else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from flat(inner, f"{above}[]")
    else:
        yield above


def test_sampling_options() -> None:
    defaults = dataclasses.asdict(draw.Sampling())
    shown = {
        option.replace("topk", "top-k").replace("topp", "top-p").removeprefix("--").replace("-", "_"): value
        for cells in table(section("docs/reproducibility.md", "## Sampling options"))
        for option, value in zip(re.findall(r"`(.*?)`", cells[0]), cells[1].split(", "), strict=True)
    }
    assert shown.keys() == defaults.keys()
    for name, value in shown.items():
        number = value.removesuffix(" (off)")
        assert float(0 if number == "off" else number) == defaults[name]


class TestPython:
    @pytest.mark.parametrize(("heading", "place", "described"), [("## One call", 0, api.Answer), *PYTHON])
    def test_fields(self, heading: str, place: int, described: type) -> None:
        tables = re.findall(r"(?:^\|.*\|\n)+", section("docs/python.md", heading), re.M)
        own = {field.name for field in dataclasses.fields(described)} - {"origin"}
        assert set(names(tables[place])) == own

    def test_the_model_options(self) -> None:
        listed = text_of("docs/python.md").partition("`load_model` takes")[2].partition("\n\n")[0]
        assert set(re.findall(r"`(\w+)`", listed)) == set(inspect.signature(api.load_model).parameters) - {"name"}

    def test_the_errors(self) -> None:
        listed = set(re.findall(r"`(\w+Error)`", section("docs/python.md", "## Errors")))
        assert listed == {kind.__name__ for kind in (*kinds(), PersonaplexError)}


def test_gpu_memory() -> None:
    text = section("docs/gpu.md", "## Memory")
    weights = memory.model_size(PERSONAPLEX_7B, 1, 1, 2).weights_bytes
    slot = {seconds: memory.cache_bytes(PERSONAPLEX_7B, 1, round(seconds * FRAME_RATE), 2) for seconds in (60, 240)}
    assert f"the weights of the 7B take {weights / GIB:.2f} GiB" in " ".join(text.split())
    assert f"{slot[60] / GIB:.2f} GiB for 60 s, and {slot[240] / GIB:.2f} GiB for 240 s" in " ".join(text.split())
    for card, left, *fitting in table(text):
        free = int(card.removesuffix(" GiB")) * GIB - weights
        assert left == f"{free / GIB:.1f} GiB"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "free_bytes", lambda _, free=free: free)
            slots = [memory.default_slots(10_000, size, torch.device("cuda")) for size in slot.values()]
        assert fitting == [str(count) for count in slots]
    assert memory.MOST_SLOTS["cuda"] == 128
    assert memory.MOST_SLOTS["cpu"] == 32


def test_memory_in_int8() -> None:
    plain, held = (memory.model_size(PERSONAPLEX_7B, 1, 1, 2, int8).weights_bytes / GIB for int8 in (False, True))
    assert f"take {held:.2f} GiB instead of {plain:.2f}" in " ".join(text_of("docs/int8.md").split())
    kernels = re.findall(r"^\| `([a-z ]+)` \|", text_of("docs/int8.md"), re.M)
    assert kernels == [*(kernel.name for kernel in int8.KERNELS["cpu"]), "weights alone"]


def test_exit_codes() -> None:
    known = {0, comparison.DIFFERENT, interrupts.INTERRUPTED, *(kind.exit_code for kind in kinds())}
    found, header, after = text_of("docs/options.md").partition("| exit code |")
    assert found
    told = {int(code) for cells in table(header + after) for code in cells[0].split(", ")}
    assert told == known | {128 + signal.SIGHUP, 128 + signal.SIGPIPE, 128 + signal.SIGTERM}


def kinds() -> list[type[PersonaplexError]]:
    return [InputError, UsageError, ModelError, VoiceError, StorageError]


def test_kinds_of_failures() -> None:
    assert set(kinds()) == set(PersonaplexError.__subclasses__())
    assert names(section("docs/troubleshooting.md", "## Calls that fail")) == [kind.__name__ for kind in kinds()]
