"""Help, version, and the commands that load nothing."""

from __future__ import annotations

import json
import math
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from personaplex.cli.main import command
from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.weights.layout import lm_layout, mimi_layout
from personaplex.voices.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.cli.conftest import Desk

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def commands(built: Any, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    for name, child in getattr(built, "commands", {}).items():
        yield from commands(child, *names, name)


@pytest.mark.parametrize("names", list(commands(command())), ids=" ".join)
def test_help(desk: Desk, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = desk.run(*names, "--help")
    text = ANSI.sub("", result.out)
    assert (result.code, result.err) == (0, "")
    assert f"Usage: personaplex {' '.join(names)}".rstrip() in text
    assert "Example: personaplex " in text
    assert max(map(len, text.splitlines())) <= 80
    assert desk.run(*names, "-h").out == result.out


def test_help_names_the_defaults(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = ANSI.sub("", desk.run("offline", "--help").out)
    for default in (
        "<input>.agent.wav",
        "<output>.json",
        "the published 7B",
        "teacher, without a text prompt",
        "42424242",
    ):
        assert f"[default: ({default})]" in text or f"[default: {default}]" in text


def test_version(desk: Desk) -> None:
    result = desk.run("--version")
    assert (result.code, result.out) == (0, f"personaplex {version('personaplex')}\n")


def test_nothing_asked_shows_the_help(desk: Desk) -> None:
    result = desk.run()
    assert result.code == 2
    assert "Usage: personaplex" in result.out + result.err


def test_voices_list(desk: Desk) -> None:
    lines = desk.run("voices", "list").out.splitlines()
    rows = json.loads(desk.run("voices", "list", "--json").out)
    published = [[voice.name, voice.sex, voice.kind] for voice in CATALOGUE]
    packaged = [[row["name"], "-", row["kind"], row["path"]] for row in rows[len(CATALOGUE) :]]
    assert [line.split() for line in lines] == published + packaged
    assert [row["name"] for row in rows[: len(CATALOGUE)]] == [voice.name for voice in CATALOGUE]


class TestModelsInfo:
    def test_the_published_model(self, desk: Desk) -> None:
        out = desk.run("models", "info").out
        assert "8,371,408,896" in out
        for line in ("lm.transformer.layers.*.self_attn.in_proj_weight", "32 × [12288, 4096]", "lm.text_linear.weight"):
            assert line in out

    def test_json_lists_every_tensor(self, desk: Desk) -> None:
        document = json.loads(desk.run("models", "info", "--json").out)
        layouts = {"lm": lm_layout(PERSONAPLEX_7B.lm), "mimi": mimi_layout(PERSONAPLEX_7B.mimi)}
        assert document["tensors"] == {
            f"{part}.{name}": list(place.shape)
            for part, layout in layouts.items()
            for name, place in layout.items()
            if not place.optional
        }
        counted = dict.fromkeys(layouts, 0)
        for name, shape in document["tensors"].items():
            counted[name.partition(".")[0]] += math.prod(shape)
        assert document["model"] == "nvidia/personaplex-7b-v1"
        assert document["lm_parameters"] == counted["lm"] == 8_371_408_896
        assert document["mimi"] == counted["mimi"]

    def test_every_tensor_by_itself(self, desk: Desk) -> None:
        tensors = json.loads(desk.run("models", "info", "tiny", "--json").out)["tensors"]
        lines = desk.run("models", "info", "tiny", "--tensors").out.splitlines()
        assert lines[: len(tensors)] == [f"{name}  {shape}" for name, shape in tensors.items()]

    def test_slots_and_seconds_decide_the_cache(self, desk: Desk) -> None:
        def cache(*options: str) -> int:
            return int(json.loads(desk.run("models", "info", "--json", *options).out)["cache_bytes"])

        assert cache("--slots", "16") == 16 * cache()
        assert cache("--seconds", "120") == 2 * cache("--seconds", "60")
        assert cache("--dtype", "float32") == 2 * cache()

    @pytest.mark.parametrize("options", [("--seconds", "inf"), ("--seconds", "0"), ("--slots", "0")])
    def test_refused(self, desk: Desk, options: tuple[str, ...]) -> None:
        result = desk.run("models", "info", *options)
        assert result.code == 2
        assert result.errors[0].startswith(f"error: Invalid value for '{options[0]}'")

    def test_an_unknown_model(self, desk: Desk) -> None:
        result = desk.run("models", "info", "nix")
        assert result.code == 3
        assert result.errors[0] == 'error: there is no model "nix"'
