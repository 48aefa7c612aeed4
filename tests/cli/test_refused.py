"""Options, paths and settings that make no sense: exit 2, before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from personaplex.samples import tiny

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@pytest.fixture(autouse=True)
def _nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> None:
        raise AssertionError("loaded in vain")

    monkeypatch.setattr(tiny, "load", load)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--seed", "-2"), "Invalid value for '--seed'"),
        (("--seed", "x"), "Invalid value for '--seed'"),
        (("--seed", "1.5"), "Invalid value for '--seed'"),
        (("--seed", str(2**63)), f"--seed {2**63} is too large |   use one from 0 to {2**63 - 1}, or -1"),
        (("--temp-text", "-0.1"), "Invalid value for '--temp-text'"),
        (("--temp-audio", "nan"), "Invalid value for '--temp-audio'"),
        (("--temp-audio", "inf"), "--temp-audio is inf"),
        (("--topk-text", "-1"), "Invalid value for '--topk-text'"),
        (("--output-subtype", "PCM_12"), '--output-subtype "PCM_12" is unknown |   choose one of PCM_16, PCM_24'),
        (("--output-rate", "999"), "--output-rate is 999"),
        (("--output-rate", "1000000"), "--output-rate is 1000000"),
        (("--format", "json,doc"), '--format: "doc" is not a format |   choose from json,srt,vtt,ctm,textgrid,frames'),
        (("--align", "user"), "Invalid value for '--align'"),
        (("--dtype", "int8"), "Invalid value for '--dtype'"),
        (("--device", "gpu"), "--device gpu is unknown |   use auto, cuda, cuda:N, mps or cpu"),
        (("--long-audio", "cut"), "Invalid value for '--long-audio'"),
        (("--hf-repo", "a/b"), "--model and --hf-repo name two models"),
        (("--revision", "main"), "tiny is made in memory"),
        (("--nix",), "No such option: --nix"),
        (("nix",), "Got unexpected extra argument"),
    ],
)
def test_refused_options(desk: Desk, options: tuple[str, ...], reason: str) -> None:
    assert desk.refused(2, *options).startswith(f"error: {reason}")


@pytest.mark.parametrize("channel", ["centre", "-1", "1.0", ""])
def test_a_channel_that_is_no_channel(desk: Desk, channel: str) -> None:
    assert desk.refused(2, "--channel", channel).startswith(f'error: --channel "{channel}" is unknown')


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--output-wav", "call.wav"), "/call.wav would replace the input"),
        (("--output-wav", "./x/../call.wav"), "/call.wav would replace the input"),
        (("--output-wav", "link.wav"), "/call.wav would replace the input"),
        (("--output-text", "call.wav"), "/call.wav would replace the input"),
        (("--mix-wav", "call.wav"), "/call.wav would replace the input"),
        (("--output-wav", "voice.wav"), "/voice.wav would replace the voice"),
        (("--output-wav", "a.wav", "--mix-wav", "a.wav"), "two outputs would be "),
        (("--output-wav", "a.json"), "two outputs would be "),
        (("--output-wav", "nix/a.wav"), "there is no folder "),
        (("--output-text", "nix/a.json"), "there is no folder "),
        (("--output-wav", "call.wav/a.wav"), "there is no folder "),
        (("--output-wav", f"{'a' * 300}/a.wav"), "there is no folder "),
        (("--output-wav", ""), "'--output-wav'"),
        (("--output-wav", "x"), "'--output-wav'"),
        (("--output-text", ".", "--format", "srt"), "'--output-text'"),
        (("--output-wav", "\udcff.wav"), r"\xff.wav' is not valid UTF-8"),
    ],
)
def test_refused_paths(desk: Desk, options: tuple[str, ...], reason: str) -> None:
    (desk.folder / "x").mkdir()
    (desk.folder / "link.wav").symlink_to("call.wav")
    assert reason in desk.refused(2, *options)


def test_the_required_options(desk: Desk) -> None:
    for missing, given in (("--input-wav", "--voice-prompt"), ("--voice-prompt", "--input-wav")):
        result = desk.run("offline", given, "call.wav")
        assert result.code == 2
        assert result.errors[0].startswith(f"error: Missing option '{missing}'")
        assert result.errors[1] == "  see `personaplex offline --help`"


def test_an_unknown_command(desk: Desk) -> None:
    result = desk.run("ofline")
    assert result.code == 2
    assert result.errors[0].startswith("error: No such command 'ofline'")


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("sed = 1", "no option is called sed |   see `personaplex offline -h`"),
        ("[offline]\nsed = 1\nsead = 2", "no option is called sed, sead"),
        ("[ofline]\nseed = 1", "no command is called [ofline]"),
        ("offline = 1", "no option is called offline"),
        ("config = 'b.toml'", "no option is called config"),
        ("help = true", "no option is called help"),
        ("seed = ", "not TOML ("),
        ("seed = [1]", "seed is [1] |   give one value"),
        ("field = 'a=b'", "field is 'a=b' |   give a list of values"),
        ("[offline.text-prompt]\na = 1", "text-prompt is {'a': 1} |   give one value"),
    ],
)
def test_refused_settings(desk: Desk, toml: str, reason: str) -> None:
    (desk.folder / "a.toml").write_text(toml)
    assert desk.refused(2, "--config", "a.toml").startswith(f"error: --config a.toml: {reason}")


def test_a_setting_of_the_wrong_type(desk: Desk) -> None:
    (desk.folder / "a.toml").write_text("seed = 'x'")
    assert desk.refused(2, "--config", "a.toml").startswith("error: Invalid value for '--seed'")


@pytest.mark.parametrize(("name", "reason"), [("nix.toml", "No such file or directory"), (".", "Is a directory")])
def test_settings_that_are_no_file(desk: Desk, name: str, reason: str) -> None:
    assert desk.refused(2, "--config", name) == f"error: --config {name}: {reason} |   name a TOML file"
