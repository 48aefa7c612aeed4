"""A folder with calls and voices, a model, and the command to hold its answers against."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch

from personaplex.api import Model, load_model
from personaplex.cli.main import run


@dataclass(frozen=True)
class Desk:
    """The current folder; `model` is tiny."""

    folder: Path
    model: Model
    monkeypatch: pytest.MonkeyPatch

    def run(self, *arguments: str) -> None:
        """Run `personaplex ARGUMENTS` on tiny, which must end well."""
        self.monkeypatch.setattr(sys, "argv", ["personaplex", *arguments, "--model", "tiny", "--quiet"])
        with pytest.raises(SystemExit) as ended:
            run()
        assert ended.value.code == 0

    def write(self, name: str, samples: npt.NDArray[Any], rate: int = 24_000, **more: Any) -> None:
        """Write an audio file."""
        soundfile.write(self.folder / name, samples, rate, **more)

    def document(self, name: str) -> dict[str, Any]:
        """A transcript, without what differs from run to run."""
        return stable(json.loads((self.folder / name).read_text(encoding="utf-8")))


def stable(document: dict[str, Any]) -> dict[str, Any]:
    """A transcript without what differs from run to run."""
    return {key: value for key, value in document.items() if key != "volatile"}


def noise(seconds: float, seed: int) -> npt.NDArray[np.float32]:
    """White noise at -20 dBFS, [N] at 24 kHz."""
    return (0.1 * np.random.default_rng(seed).standard_normal(round(seconds * 24_000))).astype(np.float32)


@pytest.fixture(scope="session")
def tiny_model() -> Model:
    return load_model("tiny", device="cpu")


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Model, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A folder with two voices and a call of 0.5 s, the environment free of settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERSONAPLEX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_VERBOSITY", "error")
    made = Desk(tmp_path, tiny_model, monkeypatch)
    made.write("call.wav", noise(0.5, seed=1))
    made.write("voice.wav", noise(0.6, seed=2))
    made.write("other.wav", noise(0.5, seed=3))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads cost more than they save on kernels this small
    yield made
    torch.set_num_threads(threads)
    log = logging.getLogger("personaplex")
    log.handlers, log.propagate = [], True
    log.setLevel(logging.NOTSET)
