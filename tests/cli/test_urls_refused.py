"""Commands that know files alone say so of a URL, and make no folder called `s3:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

WHAT = "is in a store, and this must be a path of this machine"


@pytest.mark.parametrize(
    "arguments",
    [
        "measure s3://bucket/out",
        "page s3://bucket/out",
        "compare here s3://bucket/out",
        "export s3://bucket/out -o made --to lhotse",
        "talk s3://bucket/calls.jsonl -o out",
        "talk calls.jsonl -o s3://bucket/out",
        "callers s3://bucket/scripts.jsonl -o out",
        "regress record s3://bucket/out -o goldens",
        "offline --input-wav s3://bucket/a.wav --voice-prompt voice.wav",
        "offline --input-wav call.wav --voice-prompt voice.wav --output-wav s3://bucket/a.wav",
        "batch call.wav -o out --voice-prompt-dir s3://bucket/voices",
    ],
)
def test_urls_are_refused(desk: Desk, arguments: str) -> None:
    before = desk.names()
    result = desk.run(*arguments.split())
    assert result.code == 2
    assert WHAT in result.errors[0]
    assert "s3://bucket/" in result.errors[0]
    assert desk.names() == before


def test_a_password_is_not_repeated(desk: Desk) -> None:
    result = desk.run("measure", "sftp://me:secret@host/out")
    assert (result.code, "sftp://host/out " in result.errors[0]) == (2, True)


def test_measures_need_answers_here(desk: Desk) -> None:
    result = desk.batch("call.wav", "--measure", out="memory://urls/out")
    assert (result.code, "--measure reads answers of this machine" in result.errors[0]) == (2, True)


@pytest.mark.parametrize("source", ["calls.jsonl", "file://calls"])
def test_goldens_need_calls_here(desk: Desk, source: str) -> None:
    (desk.folder / "calls").mkdir()
    desk.sound("calls/a.wav", desk.noise(0.1))
    desk.manifest([{"audio_filepath": "file://calls/a.wav"}])
    assert desk.batch(source).code == 0
    result = desk.run("regress", "record", "out", "-o", "goldens")
    assert (result.code, result.errors[-1].strip()) == (
        2,
        "goldens need calls on this machine: copy them here, and run the batch from there",
    )
