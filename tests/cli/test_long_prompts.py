"""A prompt that leaves nothing of the context to the call is refused by every command alike, before anything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

LONG = "word " * 800
TOLD = "frames of silence"


@pytest.fixture
def told(desk: Desk) -> str:
    """What `prompts count` says of it."""
    (desk.folder / "long.txt").write_text(LONG)
    result = desk.run("prompts", "count", "--file", "long.txt", "--voice", "voice.wav", "--model", "tiny")
    assert result.code == 2
    return " | ".join(result.errors)


def test_one_call(desk: Desk, told: str) -> None:
    assert desk.refused(2, "--text-prompt-file", "long.txt") == told


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_batch(desk: Desk, told: str, dry: tuple[str, ...]) -> None:
    rows = [{"audio_filepath": "call.wav", "id": "a"}, {"audio_filepath": "call.wav", "id": "b", "text_prompt": ""}]
    result = desk.batch(desk.manifest(rows), "--text-prompt-file", "long.txt", *dry)
    assert (result.code, " | ".join(result.errors)) == (2, told)
    assert not list((desk.folder / "out").glob("*"))


@pytest.mark.parametrize("own", [{"text_prompt": LONG}, {"text_prompt_file": "long.txt"}])
def test_a_rows_own_fails_alone(desk: Desk, told: str, own: dict[str, str]) -> None:
    rows = [{"audio_filepath": "call.wav", "id": "a"}, {"audio_filepath": "call.wav", "id": "b", **own}]
    plan = json.loads(desk.batch(desk.manifest(rows), "--dry-run", "--json").out)
    what = told.partition(" | ")[0].removeprefix("error: ")
    assert (plan["to_run"], plan["unreadable_files"]) == (1, [f"b: {what}"])
    assert desk.batch("calls.jsonl").code == 1
    made = desk.rows()
    assert (made["a"]["status"], made["b"]["status"]) == ("done", "failed")
    assert (made["b"]["error"]["kind"], made["b"]["error"]["what"]) == ("UsageError", what)


def test_a_plan_counts_the_prompt(desk: Desk) -> None:
    sizes = [
        json.loads(desk.batch("call.jsonl", "--dry-run", "--json", "--text-prompt", text).out)["cache_bytes"]
        for text in ("", "word " * 700)
        if desk.manifest([{"audio_filepath": "call.wav"}], "call.jsonl")
    ]
    assert sizes[1] > 20 * sizes[0] > 0
