"""The command line comes before the environment, that before [offline] of the TOML file, that before its top level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

OFFLINE = ("--model", "tiny", "--input-wav", "call.wav", "--voice-prompt", "voice.wav")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"line", "environment", "table", "top"}, 4),
        ({"environment", "table", "top"}, 3),
        ({"table", "top"}, 2),
        ({"top"}, 1),
        (set(), 42_424_242),
    ],
)
def test_precedence(desk: Desk, monkeypatch: pytest.MonkeyPatch, given: set[str], expected: int) -> None:
    top = "seed = 1\n" if "top" in given else ""
    table = "[offline]\nseed = 2\n" if "table" in given else ""
    (desk.folder / "a.toml").write_text(f"{top}{table}\n[batch]\nseed = 9\n")
    if "environment" in given:
        monkeypatch.setenv("PERSONAPLEX_SEED", "3")
    line = ("--seed", "4") if "line" in given else ()
    assert desk.offline("--config", "a.toml", *line).code == 0
    assert desk.document()["sampling"]["seed"] == expected


def test_every_kind_of_option_in_a_file(desk: Desk) -> None:
    (desk.folder / "a.toml").write_text(
        """\ufeff
        model = "tiny"
        input-wav = "call.wav"
        voice_prompt = "voice.wav"
        role = "clinic"
        field = ["company=a", "agent=b", "hours=c", "appointments=d", "price=e"]
        json = true
        quiet = true
        [offline]
        temp-text = 0.5
        greedy = true
        dtype = "float32"
        output_wav = "out.wav"
        """,
        encoding="utf-8",
    )
    result = desk.run("offline", "--config", "a.toml")
    assert (result.code, result.err) == (0, "")
    assert result.out == (desk.folder / "out.json").read_text(encoding="utf-8")
    document = desk.document("out.json")
    assert (document["sampling"]["temp_text"], document["sampling"]["greedy"]) == (0.5, True)
    assert document["prompt"]["text"].startswith("You work for a which is a doctor's clinic and your name is b.")


def test_tables_of_nested_commands(desk: Desk) -> None:
    for text, told in (
        ('[regress.check]\nlevel = "words"\n[regress.record]\naudio = true', "nowhere: holds no goldens.json"),
        ('[regress.check]\nlevel = "loud"', "Invalid value for '--level'"),
        ("[regress]\nlevle = 1", "no option is called levle |   see `personaplex regress check -h`"),
        ("[regress.check]\nlevle = 1", "no option is called levle"),
        ("[regress.chekc]\nlevel = 1", "no command is called [chekc]"),
        ("[check]\nlevel = 1", "no command is called [check]"),
    ):
        (desk.folder / "a.toml").write_text(text)
        result = desk.run("regress", "check", "nowhere", "--config", "a.toml")
        assert result.code == 2
        assert told in " | ".join(result.errors)


def test_every_kind_of_option_in_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.folder / "a.toml").write_text("temp-audio = 0.5")
    values = {"CONFIG": "a.toml", "GREEDY": "1", "JSON": "true", "TOPK_TEXT": "7", "OUTPUT_WAV": "out.wav"}
    for name, value in values.items():
        monkeypatch.setenv(f"PERSONAPLEX_{name}", value)
    result = desk.run("offline", *OFFLINE)
    assert result.code == 0
    assert result.out.startswith("{")
    sampling = desk.document("out.json")["sampling"]
    assert (sampling["greedy"], sampling["top_k_text"], sampling["temp_audio"]) == (True, 7, 0.5)


def test_a_wrong_value_in_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAPLEX_SEED", "x")
    assert desk.refused(2).startswith("error: Invalid value for '--seed'")
