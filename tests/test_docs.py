"""The user's documents: every command in them runs and does what they say, and every link leads somewhere.

Blocks run in a document's order, in one folder with a copy of the samples. Comments above a block say more of it:
`file: NAME` (it is this file's content), `files: FOLDER` (what lies there now), `prints` (what the block before it
printed). A command that ends in `# needs the licence` or `# needs a GPU` is only held against the command line.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
import yaml
from huggingface_hub import constants

from personaplex.callers.scripts import Script, Turn, read_scripts
from personaplex.cli.main import command, run
from personaplex.core.corpus.conversations import KNOWN, LineRow, SamplingRow, SideRow
from personaplex.core.storage.spool import KEPT_BYTES
from personaplex.core.storage.store import PAUSES
from personaplex.exports.export import FORMATS
from personaplex.runs.ledger import FLUSH_SECONDS
from personaplex.samples import tiny

ROOT = Path(__file__).parents[1]
DOCUMENTS = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
NOT_HERE = ("needs the licence", "needs a GPU", "needs an account", "needs espeak-ng")
CUT = dict.fromkeys(("README.md", "docs/recipes.md", "docs/export.md"), 1.2)  # seconds, of those that run many calls

_BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_FENCES = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document, its language and the comment above it."""

    mark: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, continued ones joined; none of those that .ci/run runs, word for word."""
        if self.language != "sh" or self.mark.startswith("ci: "):
            return []
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]


def text_of(name: str) -> str:
    return DOCUMENTS[name].read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    """A document's blocks, in order."""
    return [Block(mark or "", language, text) for mark, language, text in _BLOCK.findall(text_of(name))]


def is_run(line: str) -> bool:
    return not any(reason in line.partition("#")[2] for reason in NOT_HERE)


@dataclass
class Reader:
    """Does what a document says, in the current folder; `printed` is the last block's, `names` are those of Python."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    printed: str = ""
    names: dict[str, Any] = field(default_factory=dict)

    def follow(self, block: Block) -> None:
        kind, _, name = block.mark.partition(": ")
        if kind == "file":
            Path(name).write_text(block.text, encoding="utf-8")
        elif kind == "files":
            files = sorted(path.relative_to(name).as_posix() for path in Path(name).rglob("*") if path.is_file())
            assert files == block.text.splitlines()
        elif kind == "prints":
            assert self.printed == block.text
        elif block.language == "python":
            self.capsys.readouterr()
            exec(compile(block.text, "a document", "exec"), self.names)  # noqa: S102
            self.printed = self.capsys.readouterr().out
        for line in block.commands:
            if is_run(line):
                self.do(line)
            else:
                parse(shlex.split(line, comments=True))

    def do(self, line: str) -> None:
        """Run a command, which must end well or as a comment `exit N` says; `< FILE` and `> FILE` are understood."""
        code = re.search(r"#.*\bexit (\d)", line)
        words = shlex.split(line, comments=True)
        redirected = {words.pop(words.index(sign) + 1): words.pop(words.index(sign)) for sign in "<>" if sign in words}
        if words[0] == "cmp":
            subprocess.run(words, check=True)
            return
        assert words[0] == "personaplex", f"{line}: mark it as one that can't run here, or leave it out"
        for name, sign in redirected.items():
            if sign == "<":
                self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(name).read_bytes())))
        self.monkeypatch.setattr(sys, "argv", words)
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        self.printed, errors = self.capsys.readouterr()
        assert ended.value.code == (int(code[1]) if code else 0), f"{line}\n{errors}"
        for name, sign in redirected.items():
            if sign == ">":
                Path(name).write_text(self.printed, encoding="utf-8")


def parse(words: list[str]) -> None:
    """Hold a command against the command line; nothing is run. Other programs are let be."""
    name, *words = words
    if name != "personaplex":
        return
    found: Any = command()
    while hasattr(found, "commands"):
        name, *words = words
        found = found.commands[name]
    found.make_context(found.name, words, resilient_parsing=not words)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; no settings, an empty cache, no network, and tiny made once."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERSONAPLEX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(tmp_path / ".own"))
    monkeypatch.setenv("HF_HUB_VERBOSITY", "error")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / ".hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    load = tiny.load
    made: dict[Any, Any] = {}

    def load_once(device: torch.device, dtype: torch.dtype | None = None) -> Any:
        key = str(device), dtype
        model = made.get(key) or made.setdefault(key, load(device, dtype))
        return dataclasses.replace(model, lm=copy.deepcopy(model.lm))

    monkeypatch.setattr(tiny, "load", load_once)
    return tmp_path


@pytest.fixture
def reader(desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Reader]:
    """One that runs few threads, as kernels so small need."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Reader(monkeypatch, capsys)
    torch.set_num_threads(threads)


def lay_out_samples(seconds: float | None) -> None:
    """A copy of the samples in the current folder, the calls cut to their first seconds."""
    shutil.copytree(ROOT / "samples", "samples", ignore=shutil.ignore_patterns("__pycache__"))
    if seconds is None:
        return
    for path in Path("samples/calls").iterdir():
        info = soundfile.info(path)
        samples, rate = soundfile.read(path, frames=round(seconds * info.samplerate))
        soundfile.write(path, samples, rate, subtype=info.subtype)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_document_says_works(reader: Reader, name: str) -> None:
    lay_out_samples(CUT.get(name))
    for block in blocks(name):
        reader.follow(block)
    CLAIMS[name]()


def rows(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, "results.jsonl").read_text(encoding="utf-8").splitlines()]


def architecture_is_true() -> None:
    page = ROOT / "docs/architecture.md"
    program = runpy.run_path(str(page.with_name("draw_rooms.py")))
    assert program["drawn"](page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), "draw it anew"


def recipes_are_true() -> None:
    phone, both = soundfile.info("phone/internet.wav"), soundfile.info("phone/internet.mix.wav")
    assert (phone.samplerate, phone.subtype, phone.channels) == (8000, "ULAW", 1)
    assert (both.samplerate, both.channels) == (8000, 2)
    made = {row["id"] for row in rows("corpus")}
    of_one_call = {
        f"repair.agent_{sex}.{role}.seed{seed}"
        for sex in "fm"
        for role in ("teacher", "conversation")
        for seed in (1, 2, 3)
    }
    assert made
    assert made < of_one_call | {name.replace("repair", "restaurant") for name in of_one_call}, "a share"


def manifest_is_true() -> None:
    first, second, _ = rows("out")
    assert (first["id"], first["seed"], first["ticket"]) == ("monday/0417", 7, "A-17")
    assert second["duration"] == 4
    document = json.loads(Path("out", second["transcript"]).read_text(encoding="utf-8"))
    assert document["input"]["part"] == {"offset": 2.5, "duration": 4}
    assert document["prompt"]["text"].startswith("You are a wise and friendly teacher.")
    (expected,) = rows("expected")
    assert expected["expect"]["must_not_say"] == ["goodbye"]
    assert not Path("many").exists()


def storage_is_true() -> None:
    assert {row["status"] for row in rows("answers")} == {"done"}
    assert f"{KEPT_BYTES // 2**30} GiB" in text_of("docs/storage.md")
    assert f"every {FLUSH_SECONDS:.0f} seconds" in text_of("docs/storage.md")
    assert len(PAUSES) == 2, "tried three times"


def export_is_true() -> None:
    listed = re.findall(r"^\| `(\w[\w-]*)` \|", text_of("docs/export.md").partition("## Formats")[2], re.M)
    assert listed == list(FORMATS)
    assert {path.name for path in Path("hub").iterdir()} == {"README.md", "train", "test"}
    links = [path for path in Path("hub").rglob("*.wav") if path.is_symlink()]
    assert len(links) == 4
    assert Path("manifests/manifest.jsonl").read_text(encoding="utf-8").count("\n") == 2


def regression_is_true() -> None:
    assert "<audio" in Path("report.html").read_text(encoding="utf-8")
    assert Path("report.xml").read_text(encoding="utf-8").count("<testcase") == 2
    assert all(path.stat().st_size < 10_000 for path in Path("goldens/items").iterdir())
    (workflow,) = (block.text for block in blocks("docs/regression.md") if block.language == "yaml")
    steps = yaml.safe_load(workflow)["jobs"]["check"]["steps"]
    lines = [shlex.split(step["run"]) for step in steps if "run" in step]
    assert lines[0] == ["pip", "install", "-c", "constraints.txt", "."]
    parse(lines[1])
    assert (ROOT / lines[1][3] / "goldens.json").is_file()


def python_is_true() -> None:
    document = json.loads(Path("answers/phone.json").read_text(encoding="utf-8"))
    assert (document["output"]["subtype"], document["output"]["sample_rate"]) == ("ULAW", 8000)
    made = sorted(path.relative_to("many").as_posix() for path in Path("many").rglob("*.wav"))
    assert made == ["samples/calls/clinic.wav", "samples/calls/repair.wav"]


def reproducibility_is_true() -> None:
    assert [row["id"] for row in rows("one")] == ["repair", "restaurant"]


def troubleshooting_is_true() -> None:
    report = json.loads(Path("doctor.json").read_text(encoding="utf-8"))
    assert report["ok"]


def nothing_more() -> None:
    """Its blocks say it all."""


def talk_is_true() -> None:
    first, _ = rows("talks")
    assert (first["id"], first["ticket"], first["duration"]) == ("table", "A-17", 4)
    document = json.loads(Path("talks/table.json").read_text(encoding="utf-8"))
    assert {turn["speaker"] for turn in document["segments"]} == {"a", "b"}
    page = (ROOT / "docs/talk.md").read_text(encoding="utf-8")
    known = {
        *KNOWN,
        *SideRow.model_fields,
        *LineRow.model_fields,
        *SamplingRow.model_fields,
        "both_waiting",
        "greeting_loop",
    }
    assert {name for name in known if f"`{name}`" not in page} == set()


def callers_are_true() -> None:
    (only,) = read_scripts("scripts.jsonl").good
    assert [turn.breaks_in for turn in only.script.turns] == [False, False, True]
    page = (ROOT / "docs/callers.md").read_text(encoding="utf-8")
    assert {name for name in {*Script.model_fields, *Turn.model_fields} if f"`{name}`" not in page} == set()


CLAIMS: dict[str, Callable[[], None]] = {
    "README.md": nothing_more,
    "docs/architecture.md": architecture_is_true,
    "docs/callers.md": callers_are_true,
    "docs/export.md": export_is_true,
    "docs/gpu.md": nothing_more,
    "docs/int8.md": nothing_more,
    "docs/scaling.md": nothing_more,
    "docs/manifest.md": manifest_is_true,
    "docs/measures.md": nothing_more,
    "docs/moshi.md": nothing_more,
    "docs/options.md": nothing_more,
    "docs/page.md": nothing_more,
    "docs/python.md": python_is_true,
    "docs/recipes.md": recipes_are_true,
    "docs/regression.md": regression_is_true,
    "docs/reproducibility.md": reproducibility_is_true,
    "docs/storage.md": storage_is_true,
    "docs/talk.md": talk_is_true,
    "docs/transcript.md": nothing_more,
    "docs/troubleshooting.md": troubleshooting_is_true,
    "docs/voices.md": nothing_more,
}


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = _FENCES.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    for link in _LINK.findall(_FENCES.sub("", text_of(name))):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (DOCUMENTS[name].parent / target).resolve() if target else DOCUMENTS[name]
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


def test_the_front_page_names_every_document() -> None:
    linked = {link.partition("#")[0] for link in _LINK.findall(text_of("README.md"))}
    assert set(DOCUMENTS) - {"README.md"} <= linked


@pytest.mark.parametrize("name", DOCUMENTS)
def test_options_and_variables_exist(name: str) -> None:
    walked: list[Any] = [command()]
    for group in walked:  # grows while it is walked
        walked.extend(getattr(group, "commands", {}).values())
    parameters = [parameter for found in walked for parameter in found.params]
    options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text_of(name)))
    assert named - options - {"--help"} == set()
    variables = {str(parameter.envvar) for parameter in parameters} | {"PERSONAPLEX_VOICES", "PERSONAPLEX_CACHE"}
    assert set(re.findall(r"PERSONAPLEX_[A-Z_]*[A-Z]\b", text_of(name))) <= variables
