"""Where a voice is found, and that how a model is loaded does not change what it answers."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel, ParityCase


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("model/voices/deep/NATM1.pt", ("--voice-prompt", "NATM1")),
        ("model/voices/NATM1.pt", ("--voice-prompt", "NATM1.pt")),
        ("mine/NATM1.pt", ("--voice-prompt", "NATM1", "--voice-prompt-dir", "mine")),
        ("mine/helen.pt", ("--voice-prompt", "helen.pt", "--voice-prompt-dir", "mine")),
    ],
)
def test_where_a_voice_is_found(
    desk: Desk, parity_cases: dict[str, ParityCase], build_model: BuildModel, place: str, options: tuple[str, ...]
) -> None:
    shutil.copytree(build_model("short"), desk.folder / "model")
    (desk.folder / place).parent.mkdir(parents=True)
    shutil.copy(parity_cases["short"].path / "voice.pt", desk.folder / place)
    assert desk.offline("--model", "model", "--text-prompt", "", *options).code == 0
    prompt = desk.document()["prompt"]
    assert prompt["voice"] == Path(place).stem
    assert prompt["voice_sha256"] == hashlib.sha256((desk.folder / place).read_bytes()).hexdigest()


@pytest.mark.parametrize("model", ["tiny", "short"])
def test_offloaded_layers_compute_the_same(desk: Desk, build_model: BuildModel, model: str) -> None:
    name = model if model == "tiny" else str(build_model(model))
    made = []
    for options in ((), ("--cpu-offload",)):
        assert desk.offline("--model", name, "--device", "cpu", "--text-prompt", "", *options).code == 0
        text = (desk.folder / "call.agent.json").read_text(encoding="utf-8")
        made.append(((desk.folder / "call.agent.wav").read_bytes(), text.partition('"volatile"')[0]))
    assert made[0] == made[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_types(desk: Desk, dtype: str) -> None:
    assert desk.offline("--dtype", dtype).code == 0
    assert desk.document()["engine"]["dtype"] == dtype
