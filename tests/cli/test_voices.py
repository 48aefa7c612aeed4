"""`personaplex voices`, as a user would run it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from personaplex.voices.catalogue import CATALOGUE

if TYPE_CHECKING:
    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel

PACKAGED = ("agent_f", "agent_m", "nano_f", "nano_m")
PT = Path(__file__).parents[1] / "data" / "voice_short.pt"
TORCH = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"


@pytest.fixture(autouse=True)
def _empty_hub(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(desk.folder / ".hub"))


def created(desk: Desk, *options: str, source: str | Path = "voice.wav", output: str = "made") -> Path:
    """The file of a voice made for tiny."""
    result = desk.run("voices", "create", source, "-o", output, "--model", "tiny", "--quiet", *options)
    assert (result.code, result.err) == (0, "")
    return Path(result.out.rstrip("\n"))


def shown(desk: Desk, *arguments: str | Path) -> dict[str, Any]:
    result = desk.run("voices", "show", *arguments, "--json")
    assert (result.code, result.err) == (0, "")
    facts: dict[str, Any] = json.loads(result.out)
    return facts


class TestList:
    def test_needs_no_torch(self, desk: Desk) -> None:
        result = desk.process("voices", "list", before=TORCH)
        assert (result.code, result.err) == (0, "False\n")
        assert len(result.out.splitlines()) == len(CATALOGUE) + len(PACKAGED)

    @pytest.mark.parametrize("variable", ["", "PERSONAPLEX_VOICES", "PERSONAPLEX_VOICE_PROMPT_DIR"])
    def test_the_users_folder(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        if variable:
            monkeypatch.setenv(variable, str(desk.folder))
        options = () if variable else ("--voice-prompt-dir", desk.folder)
        place = desk.folder / "voice.wav"
        last = desk.run("voices", "list", *options).out.splitlines()[-1]
        assert last.split() == ["voice", "-", "recording", str(place)]
        row = json.loads(desk.run("voices", "list", *options, "--json").out)[-1]
        assert row == {"name": "voice", "sex": None, "kind": "recording", "path": str(place), "archive": None}

    def test_a_folder_that_is_not_there(self, desk: Desk) -> None:
        result = desk.run("voices", "list", "--voice-prompt-dir", "nix")
        assert (result.code, result.out) == (2, "")
        assert result.errors[0] == "error: nix: the folder of voices can't be read: No such file or directory"


class TestShow:
    def test_a_stored_voice(self, desk: Desk, build_model: BuildModel) -> None:
        assert shown(desk, PT) == {
            "name": "voice_short",
            "path": str(PT),
            "kind": "stored",
            "frames": 13,
            "seconds": 1.04,
            "dim": 64,
            "dtype": "float32",
            "sha256": hashlib.sha256(PT.read_bytes()).hexdigest(),
            "fits": [],
            "metadata": {},
        }
        folder = str(build_model("short"))
        assert shown(desk, PT, "--model", folder)["fits"] == [folder]
        assert shown(desk, PT, "--model", "tiny")["fits"] == []
        assert "fits         no known model" in desk.run("voices", "show", PT).out.splitlines()

    def test_a_made_voice(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        path = created(desk)
        monkeypatch.setenv("PERSONAPLEX_VOICES", str(desk.folder))
        facts = shown(desk, "made")
        assert (facts["dim"], facts["frames"], facts["fits"]) == (128, 8, ["tiny"])
        assert facts["metadata"]["model"] == "tiny"
        assert (
            facts["metadata"]["source_sha256"] == hashlib.sha256((desk.folder / "voice.wav").read_bytes()).hexdigest()
        )
        assert "metadata     schema: personaplex.voice/1" in desk.run("voices", "show", path).out.splitlines()

    def test_a_recording(self, desk: Desk) -> None:
        facts = shown(desk, "voice.wav")
        assert (facts["kind"], facts["frames"], facts["seconds"]) == ("recording", 8, 0.6)
        assert (facts["sample_rate"], facts["channels"]) == (24_000, 1)
        assert facts["fits"] == ["nvidia/personaplex-7b-v1", "nano", "tiny"]

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("NATM1", "voice 'NATM1' is not on this machine"),
            ("natm1", "voice 'natm1' is unknown"),
            ("junk.pt", "junk.pt: not a voice"),
            ("junk.safetensors", "junk.safetensors: not a safetensors file"),
            ("junk.wav", "voice junk.wav: is not audio that can be read"),
        ],
    )
    def test_refused(self, desk: Desk, name: str, reason: str) -> None:
        for suffix in ("pt", "safetensors", "wav"):
            (desk.folder / f"junk.{suffix}").write_bytes(b"junk" * 99)
        result = desk.run("voices", "show", name)
        assert (result.code, result.out) == (3, "")
        assert result.errors[0].startswith(f"error: {reason}")

    def test_an_unknown_model(self, desk: Desk) -> None:
        result = desk.run("voices", "show", PT, "--model", "nix")
        assert result.code == 3
        assert result.errors[0] == 'error: there is no model "nix"'


class TestCreate:
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_it_gives_the_recordings_answer(self, desk: Desk, dtype: str) -> None:
        path = created(desk, "--dtype", dtype)
        answers = []
        for voice in ("voice.wav", path):
            assert desk.offline("--dtype", dtype, voice=voice).code == 0
            answers.append((desk.document()["tokens_sha256"], (desk.folder / "call.agent.wav").read_bytes()))
        assert answers[0] == answers[1]

    def test_it_is_found_by_its_name(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        (desk.folder / "own").mkdir()
        monkeypatch.setenv("PERSONAPLEX_VOICES", str(desk.folder / "own"))
        assert created(desk, output="anna") == desk.folder / "own" / "anna.safetensors"
        assert desk.offline(voice="anna").code == 0
        assert desk.document()["prompt"]["voice"] == "anna"
        assert created(desk, "--voice-prompt-dir", ".", output="bert") == Path("bert.safetensors")

    @pytest.mark.parametrize(
        ("output", "path"),
        [("a", "a.safetensors"), ("a.v2", "a.v2.safetensors"), ("a.safetensors", "a.safetensors")],
    )
    def test_names(self, desk: Desk, output: str, path: str) -> None:
        assert created(desk, output=output) == Path(path)
        assert created(desk, "--force", output=f"./{output}") == Path(path)

    def test_consent_and_doubts_are_told(self, desk: Desk) -> None:
        samples = desk.noise(1)
        samples[:100] = 1.2
        desk.sound("loud.wav", samples, subtype="FLOAT")
        result = desk.run("voices", "create", "loud.wav", "-o", "loud", "--model", "tiny")
        assert result.code == 0
        assert result.out == "loud.safetensors\n"
        assert "consent" in result.err
        assert "warning: voice loud.wav: lasts 1.0 s" in result.err
        assert "warning: voice loud.wav: samples at full scale: 100" in result.err

    def test_a_pt_is_converted_without_any_model(self, desk: Desk, build_model: BuildModel) -> None:
        shutil.copy(PT, desk.folder / "voice.pt")
        result = desk.run("voices", "create", "voice.pt", "-o", "made")
        assert (result.code, result.out, result.err) == (0, "made.safetensors\n", "")
        answers = []
        for voice in ("voice.pt", "made.safetensors"):
            assert desk.offline("--model", build_model("short"), "--text-prompt", "", voice=voice).code == 0
            answers.append(desk.document()["tokens_sha256"])
        assert answers[0] == answers[1]
        error = desk.offline(voice="made.safetensors")
        assert error.code == 3
        assert "made for a model of dim 64; this one has 128" in error.errors[0]

    def test_what_is_there_is_replaced_by_force_alone(self, desk: Desk) -> None:
        path = created(desk)
        before = path.read_bytes()
        desk.sound("voice.wav", desk.noise(0.7, seed=9))
        result = desk.run("voices", "create", "voice.wav", "-o", "made", "--model", "tiny")
        assert result.code == 2
        assert result.errors == [
            "error: made.safetensors is there already",
            "  choose another name, or replace it with --force",
        ]
        assert path.read_bytes() == before
        assert created(desk, "--force").read_bytes() != before

    @pytest.mark.parametrize(
        ("code", "source", "options", "reason"),
        [
            (3, "nix.wav", (), "voice nix.wav: cannot be read: No such file or directory"),
            (3, "short.wav", (), "voice short.wav: lasts only 0.300 s"),
            (3, "silent.wav", (), "voice silent.wav: is silent"),
            (3, "text.wav", (), "voice text.wav: is not audio"),
            (3, "nix.pt", (), "nix.pt: No such file or directory"),
            (3, PT, ("--model", "tiny"), f"{PT}: made for a model of dim 64; this one has 128"),
            (3, "voice.wav", ("--model", "nix"), 'there is no model "nix"'),
            (2, "made.safetensors", (), "made.safetensors is a .safetensors voice already"),
            (2, "voice.wav", ("-o", "nix/a"), "nix/a.safetensors: there is no folder nix"),
            (2, "voice.wav", ("-o", "a.pt"), "-o a.pt: a voice is written as .safetensors"),
            (2, "voice.wav", ("-o", "."), "-o '.' names no file"),
            (2, "voice.wav", ("-o", ""), "-o '' names no file"),
            (2, "voice.wav", ("--device", "nix"), "--device nix is unknown"),
        ],
    )
    def test_refused(self, desk: Desk, code: int, source: str | Path, options: tuple[str, ...], reason: str) -> None:
        desk.sound("short.wav", desk.noise(0.3))
        desk.sound("silent.wav", np.zeros(24_000))
        (desk.folder / "text.wav").write_text("text")
        before = desk.names()
        model = () if "--model" in options or str(source).endswith(".pt") else ("--model", "tiny")
        result = desk.run("voices", "create", source, "-o", "made", *model, *options)
        assert (result.code, result.out) == (code, "")
        assert result.errors[0].startswith(f"error: {reason}")
        assert desk.names() == before
