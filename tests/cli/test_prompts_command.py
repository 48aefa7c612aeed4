"""`personaplex prompts`, as a user would run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.prompts import library
from personaplex.samples.catalog import model_folder

if TYPE_CHECKING:
    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel

PT = Path(__file__).parents[1] / "data" / "voice_short.pt"
TORCH = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"


def filled(name: str) -> list[str]:
    """Options that give every field of a role a value."""
    return [part for field in library.fields(library.text(name)) for part in ("--field", f"{field}=an {field}")]


def counted(desk: Desk, *options: str | Path) -> dict[str, Any]:
    result = desk.run("prompts", "count", *options, "--json")
    assert (result.code, result.err) == (0, "")
    document: dict[str, Any] = json.loads(result.out)
    return document


class TestLibrary:
    @pytest.mark.parametrize(
        "arguments", [["list"], ["show", "clinic"], ["render", "clinic", *filled("clinic")]], ids=lambda given: given[0]
    )
    def test_needs_no_torch(self, desk: Desk, arguments: list[str]) -> None:
        result = desk.process("prompts", *arguments, before=TORCH)
        assert (result.code, result.err) == (0, "False\n")

    def test_list(self, desk: Desk) -> None:
        rows = json.loads(desk.run("prompts", "list", "--json").out)
        assert [row["name"] for row in rows] == library.names()
        assert all(row["text"] == library.text(row["name"]) for row in rows)
        lines = desk.run("prompts", "list").out.splitlines()
        assert [line.split()[0] for line in lines] == library.names()
        clinic = next(line for line in lines if line.startswith("clinic"))
        assert "company, agent, hours, appointments, price" in clinic
        assert "You work for {company} which is a doctor's clinic" in clinic

    def test_show(self, desk: Desk) -> None:
        assert desk.run("prompts", "show", "hotel").out == library.text("hotel") + "\n"
        document = json.loads(desk.run("prompts", "show", "hotel", "--json").out)
        assert document["fields"][:3] == ["company", "agent", "rooms"]

    @pytest.mark.parametrize("command", ["show", "render", "count"])
    def test_an_unknown_role(self, desk: Desk, command: str) -> None:
        result = desk.run("prompts", command, "clinc")
        assert (result.code, result.out) == (2, "")
        assert result.errors[0] == 'error: no role is called "clinc"'


class TestRender:
    @pytest.mark.parametrize("name", library.names())
    def test_every_role(self, desk: Desk, name: str) -> None:
        result = desk.run("prompts", "render", name, *filled(name))
        assert (result.code, result.err) == (0, "")
        assert "{" not in result.out
        assert all(f"an {field}" in result.out for field in library.fields(library.text(name)))

    def test_a_value_without_a_field_is_a_warning(self, desk: Desk) -> None:
        result = desk.run("prompts", "render", "teacher", "--field", "agent=Mia", "--field", "hours=9=10")
        assert (result.code, result.out) == (0, library.text("teacher") + "\n")
        assert result.err == 'warning: role "teacher" does not use agent, hours; its fields: none\n'
        document = json.loads(desk.run("prompts", "render", "teacher", "--field", "agent=Mia", "--json").out)
        assert document == {"name": "teacher", "text": library.text("teacher"), "unused": ["agent"]}

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ((), 'role "clinic" lacks a value for fields company, agent, hours, appointments, price'),
            (filled("clinic")[2:], 'role "clinic" lacks a value for field company'),
            (("--field", "company"), '--field "company" has no "="'),
            (("--field", "company=\udcff"), "a --field is not valid UTF-8"),
        ],
    )
    def test_refused(self, desk: Desk, options: tuple[str, ...], reason: str) -> None:
        result = desk.run("prompts", "render", "clinic", *options)
        assert (result.code, result.out) == (2, "")
        assert result.errors[0] == f"error: {reason}"


class TestCount:
    def test_a_role(self, desk: Desk) -> None:
        text = library.render("clinic", {field: f"an {field}" for field in library.fields(library.text("clinic"))})
        tokens = len(Tokenizer(model_folder("tiny") / "tokenizer.model").prompt_ids(text))
        assert counted(desk, "clinic", *filled("clinic"), "--model", "tiny") == {
            "model": "tiny",
            "tokens": tokens,
            "silence_frames": 12,
            "voice_frames": None,
            "prompt_frames": tokens + 12,
            "prompt_seconds": (tokens + 12) / 12.5,
            "context_frames": 3000,
            "left_frames": 2988 - tokens,
            "left_seconds": (2988 - tokens) / 12.5,
        }

    def test_it_is_what_a_call_takes(self, desk: Desk) -> None:
        document = counted(desk, "--text", "Be kind.", "--voice", "voice.wav", "--model", "tiny")
        assert desk.offline("--text-prompt", "Be kind.").code == 0
        prompt = desk.document()["prompt"]
        assert (document["tokens"], document["prompt_frames"]) == (prompt["tokens"], prompt["steps"])
        assert document["voice_frames"] == 8

    def test_a_file_and_a_stored_voice_of_a_directory(self, desk: Desk, build_model: BuildModel) -> None:
        (desk.folder / "role.txt").write_text("\ufeffBe kind.\n", encoding="utf-8")
        folder = desk.folder / "model"
        shutil.copytree(build_model("short"), folder, ignore=shutil.ignore_patterns("*.safetensors"))
        document = counted(desk, "--file", "role.txt", "--voice", PT, "--model", folder)
        assert (document["voice_frames"], document["context_frames"]) == (13, 64)
        assert document["tokens"] == counted(desk, "--text", "Be kind.", "--model", folder)["tokens"]

    def test_lines(self, desk: Desk) -> None:
        assert desk.run(
            "prompts", "count", "--text", "", "--model", "tiny", "--voice", "voice.wav"
        ).out.splitlines() == [
            "tokens  0",
            "prompt  20 frames, 1.60 s: 0 tokens of text, 12 frames of silence, 8 frames of voice",
            "left    2980 of 3000 frames, 238.40 s",
        ]

    @pytest.mark.parametrize(("spared", "code"), [(1, 0), (0, 2)])
    def test_a_prompt_that_fills_the_context_is_refused(self, desk: Desk, spared: int, code: int) -> None:
        once = counted(desk, "--text", "a", "--model", "tiny")["tokens"]
        twice = counted(desk, "--text", "a a", "--model", "tiny")["tokens"]
        words, rest = divmod(3000 - 12 - spared - once, twice - once)
        assert rest == 0
        result = desk.run("prompts", "count", "--text", "a" + " a" * words, "--model", "tiny")
        assert result.code == code
        if code:
            assert result.errors == [
                "error: the prompt takes 3000 frames (240.00 s): 2988 tokens of text, 12 frames of silence",
                "  the context holds 3000 (240.00 s), the call included: shorten the prompt",
            ]

    @pytest.mark.parametrize(
        ("code", "options", "reason"),
        [
            (2, (), "count takes a role's NAME, --text or --file, one of them"),
            (2, ("teacher", "--text", "x"), "count takes a role's NAME, --text or --file, one of them"),
            (2, ("--text", "x", "--field", "a=b"), "--field fills in a role, and none is named"),
            (2, ("--text", "\udcff"), "--text is not valid UTF-8"),
            (2, ("clinic",), 'role "clinic" lacks a value for fields company'),
            (2, ("--file", "nix.txt"), "--file nix.txt: No such file or directory"),
            (2, ("--file", "latin.txt"), "--file latin.txt: not UTF-8 text"),
            (3, ("teacher", "--voice", "nix"), "voice 'nix' is unknown"),
            (3, ("teacher", "--voice", str(PT)), f"{PT}: made for a model of dim 64; this one has 128"),
            (3, ("teacher", "--model", "nix"), 'there is no model "nix"'),
        ],
    )
    def test_refused(self, desk: Desk, code: int, options: tuple[str, ...], reason: str) -> None:
        (desk.folder / "latin.txt").write_bytes("Sé amable.".encode("latin-1"))
        model = () if "--model" in options else ("--model", "tiny")
        result = desk.run("prompts", "count", *model, *options)
        assert (result.code, result.out) == (code, "")
        assert result.errors[0].startswith(f"error: {reason}")

    def test_the_published_model_needs_its_tokenizer(self, desk: Desk) -> None:
        result = desk.process("prompts", "count", "teacher")
        assert result.code == 3
        assert "tokenizer_spm_32k_3.model is not in the cache" in result.errors[0]
