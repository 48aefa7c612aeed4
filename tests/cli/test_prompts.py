"""Where the text prompt comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

CLINIC = {
    "company": "Harbor Lane",
    "agent": "Ines {hours} Duarte=x",
    "hours": "9 to 5",
    "appointments": "Friday",
    "price": "30 dollars",
}


def prompted(desk: Desk, *options: str) -> dict[str, Any]:
    """The transcript of a call with these options."""
    result = desk.offline("--greedy", *options)
    assert result.code == 0, result.err
    return desk.document()


def test_without_a_prompt_the_agent_is_a_teacher(desk: Desk) -> None:
    default, chosen = prompted(desk), prompted(desk, "--role", "teacher")
    assert default["prompt"] == chosen["prompt"]
    assert default["tokens_sha256"] == chosen["tokens_sha256"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_prompt(desk: Desk, text: str) -> None:
    prompt = prompted(desk, "--text-prompt", text)["prompt"]
    assert (prompt["text"], prompt["tokens"], prompt["steps"]) == ("", 0, 8 + 12)


@pytest.mark.parametrize("text", ["<system> Be kind. <system>", "  Be kind.\n"])
def test_tags_and_blanks_around_a_prompt_change_nothing(desk: Desk, text: str) -> None:
    plain, given = prompted(desk, "--text-prompt", "Be kind."), prompted(desk, "--text-prompt", text)
    assert given["prompt"]["text"] == text.strip()
    assert given["prompt"]["tokens"] == plain["prompt"]["tokens"] > 0
    assert given["tokens_sha256"] == plain["tokens_sha256"]


def test_another_prompt_gives_another_answer(desk: Desk) -> None:
    assert (
        prompted(desk, "--text-prompt", "a")["tokens_sha256"] != prompted(desk, "--text-prompt", "b")["tokens_sha256"]
    )


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_prompt_from_a_file(desk: Desk, start: str) -> None:
    (desk.folder / "prompt.txt").write_text(f"{start}Sé amable.\n", encoding="utf-8")
    assert prompted(desk, "--text-prompt-file", "prompt.txt")["prompt"]["text"] == "Sé amable."


def test_a_role_with_its_fields(desk: Desk) -> None:
    fields = [part for key, value in CLINIC.items() for part in ("--field", f"{key}={value}")]
    text = prompted(desk, "--role", "clinic", *fields)["prompt"]["text"]
    assert text.startswith(
        "You work for Harbor Lane which is a doctor's clinic and your name is Ines {hours} Duarte=x."
    )
    assert "Opening hours: 9 to 5." in text


@pytest.mark.parametrize(
    "options",
    [
        ("--text-prompt", "x", "--role", "teacher"),
        ("--text-prompt", "", "--text-prompt-file", "voice.wav"),
        ("--text-prompt-file", "voice.wav", "--role", "teacher"),
    ],
)
def test_prompts_exclude_each_other(desk: Desk, options: tuple[str, ...]) -> None:
    error = desk.refused(2, *options)
    assert error == "error: --text-prompt, --text-prompt-file and --role exclude each other |   give one of them"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--role", "clinc"), 'no role is called "clinc" |   did you mean "clinic"?'),
        (("--role", "clinic", "--field", "company=x"), 'role "clinic" lacks a value for fields agent, hours'),
        (("--role", "teacher", "--field", "a=b"), 'role "teacher" has no field a'),
        (("--role", "clinic", "--field", "company"), '--field "company" has no "="'),
        (("--field", "a=b"), "--field fills in a --role, and none is given"),
        (("--text-prompt", "x", "--field", "a=b"), "--field fills in a --role, and none is given"),
        (("--text-prompt", "\udcff"), "the text prompt is not valid UTF-8"),
        (("--text-prompt-file", "nix.txt"), "--text-prompt-file nix.txt: No such file or directory"),
        (("--text-prompt-file", "."), "--text-prompt-file .: Is a directory"),
        (("--text-prompt-file", "latin.txt"), "--text-prompt-file latin.txt: not UTF-8 text"),
    ],
)
def test_refused_prompts(desk: Desk, options: tuple[str, ...], reason: str) -> None:
    (desk.folder / "latin.txt").write_bytes("Sé amable.".encode("latin-1"))
    assert desk.refused(2, *options).startswith(f"error: {reason}")
