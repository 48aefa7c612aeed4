"""The command, run as a user would: from a folder with a caller's recording and a voice in it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch

from personaplex.cli.main import run
from personaplex.samples import tiny

CALL, VOICE = "call.wav", "voice.wav"
PROGRAM = "from personaplex.cli.main import run; run()"


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines of an error, which are one or two and no traceback."""
        lines = self.err.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        assert len(starts) == 1, self.err
        assert len(lines) - starts[0] <= 2, self.err
        assert "Traceback" not in self.err
        return lines[starts[0] :]


@dataclass(frozen=True)
class Desk:
    """The folder in which a command runs."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def run(self, *arguments: str | Path) -> Result:
        """Run `personaplex ARGUMENTS` in this process."""
        self.monkeypatch.setattr(sys, "argv", ["personaplex", *map(str, arguments)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, out, err)

    def offline(self, *options: str | Path, call: str | Path = CALL, voice: str | Path = VOICE) -> Result:
        """Run one call on the tiny model; a later option takes the place of an earlier one."""
        return self.run("offline", "--model", "tiny", "--input-wav", call, "--voice-prompt", voice, *options)

    @staticmethod
    def batch_arguments(source: str | Path, *options: str | Path, out: str | Path = "out") -> list[str]:
        """The arguments of a batch on the tiny model, without messages but errors."""
        fixed = ["--model", "tiny", "--voice-prompt", VOICE, "--quiet"]
        return ["batch", str(source), "-o", str(out), *fixed, *map(str, options)]

    def batch(self, source: str | Path, *options: str | Path, out: str | Path = "out") -> Result:
        """Run a batch on the tiny model."""
        return self.run(*self.batch_arguments(source, *options, out=out))

    def tree(self, out: str | Path = "out") -> dict[str, Any]:
        """What a batch made: each file's bytes by its path, a JSON's content without what may differ between runs."""
        made: dict[str, Any] = {}
        for path in sorted((self.folder / out).rglob("*")):
            if path.is_file():
                made[path.relative_to(self.folder / out).as_posix()] = path.read_bytes()
        for name, content in made.items():
            if name.endswith(".json") and not name.endswith(".frames.json"):
                made[name] = {key: value for key, value in json.loads(content).items() if key != "volatile"}
        return made

    def rows(self, out: str | Path = "out") -> dict[str, dict[str, Any]]:
        """The rows of a batch's results, by id and in their order."""
        lines = (self.folder / out / "results.jsonl").read_text(encoding="utf-8").split("\n")
        return {row["id"]: row for row in map(json.loads, lines[:-1])}

    def manifest(self, rows: Sequence[dict[str, Any]], name: str = "calls.jsonl") -> Path:
        """Write a manifest."""
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def refused(self, code: int, *options: str | Path, **files: str | Path) -> str:
        """The error, on one line, of a call that must end with `code` and leave no file behind."""
        before = self.names()
        result = self.offline(*options, **files)
        error = " | ".join(result.errors)
        assert (result.code, result.out) == (code, ""), error
        assert self.names() == before
        return error

    def spawn(self, *arguments: str | Path, before: str = "") -> subprocess.Popen[str]:
        """Start `personaplex ARGUMENTS` in a process of its own, away from any hub; it runs the code `before` first."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERSONAPLEX_")}
        environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(self.folder / ".hub"), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", before + PROGRAM, *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def process(self, *arguments: str | Path, before: str = "") -> Result:
        """As `run`, in a process of its own."""
        with self.spawn(*arguments, before=before) as child:
            out, err = child.communicate(timeout=120)
        return Result(child.returncode, out, err)

    def sound(self, name: str, samples: npt.NDArray[Any], rate: int = 24_000, **more: Any) -> Path:
        """Write an audio file."""
        soundfile.write(self.folder / name, samples, rate, **more)
        return self.folder / name

    @staticmethod
    def noise(seconds: float, seed: int = 0) -> npt.NDArray[np.float64]:
        """White noise at -20 dBFS, [N] at 24 kHz."""
        return 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * 24_000))

    def samples(self, name: str = "call.agent.wav") -> npt.NDArray[np.float64]:
        """An audio file's samples [N] or [N, C]."""
        samples: npt.NDArray[np.float64] = soundfile.read(self.folder / name)[0]
        return samples

    def document(self, name: str = "call.agent.json") -> dict[str, Any]:
        """A transcript."""
        document: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return document

    def made_once(self, template: Path, make: Callable[[Desk], None]) -> Desk:
        """This desk with what `make` leaves on one; it is made on the first desk alone, and copied from `template`."""
        if not template.exists():
            make(self)
            shutil.copytree(self.folder, template)
        shutil.copytree(template, self.folder, dirs_exist_ok=True)
        return self

    def names(self) -> set[str]:
        """All that lies in the folder, hidden files too."""
        return {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")}


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A folder with 0.5 s of a call and 0.6 s of a voice, the environment free of settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERSONAPLEX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_VERBOSITY", "error")  # the command sets it, for the rest of the process
    made = Desk(tmp_path, capsys, monkeypatch)
    made.sound(CALL, made.noise(0.5, seed=1))
    made.sound(VOICE, made.noise(0.6, seed=2))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads cost more than they save on kernels this small
    yield made
    torch.set_num_threads(threads)
    log = logging.getLogger("personaplex")
    log.handlers, log.propagate = [], True
    log.setLevel(logging.NOTSET)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module's tests keep what `Desk.made_once` made."""
    return tmp_path_factory.mktemp("template") / "copy"


@pytest.fixture(scope="session")
def loaded_tiny() -> Any:
    """`tiny.load`, which makes a model once."""
    return functools.cache(tiny.load)


@pytest.fixture(autouse=True)
def _tiny_is_made_once(loaded_tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(device: torch.device, dtype: torch.dtype | None = None) -> Any:
        model = loaded_tiny(torch.device(device), dtype)
        return dataclasses.replace(model, lm=copy.deepcopy(model.lm))  # whose weights the command packs, in place

    monkeypatch.setattr(tiny, "load", load)
