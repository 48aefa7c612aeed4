"""What is shipped and what is promised on the front page: packages, the wheel, constraints, the README's commands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from personaplex.cli.main import command

ROOT = Path(__file__).parents[1]
TOP = ("api", "callers", "cli", "compare", "core", "exports", "prompts", "runs", "samples", "voices")
FOR_A_CHECKOUT = "samples/nano/"  # the recipe of the packaged model nano
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")

_FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def package_files(root: Path) -> set[str]:
    """Every file of the packages, by its path below `root`."""
    found = (path for top in TOP for path in (root / top).rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix() for path in found if path.parent.name != "__pycache__"}
    return {name for name in names if not name.startswith(FOR_A_CHECKOUT)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from: in place, an earlier build's files would get into the wheel."""
    copy = tmp_path_factory.mktemp("source")
    for top in TOP:
        shutil.copytree(ROOT / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path) -> list[str]:
    """Names of what is in the wheel."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(source / "dist"), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def readme_commands() -> list[list[str]]:
    """The words of every `personaplex` command in the README's shell blocks."""
    joined = (block.replace("\\\n", " ") for block in _FENCE.findall(README))
    lines = [shlex.split(line, comments=True) for block in joined for line in block.splitlines()]
    return [words[1:] for words in lines if words and Path(words[0]).name == "personaplex"]


def requirements() -> list[Requirement]:
    """Everything that pyproject.toml asks for: to run, to develop and to build."""
    project = PROJECT["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    return [Requirement(name) for name in (*project["dependencies"], *extras, *PROJECT["build-system"]["requires"])]


def test_every_package_is_listed() -> None:
    on_disk = {".".join(Path(file).parent.parts) for file in package_files(ROOT) if Path(file).name == "__init__.py"}
    assert set(TOP) <= on_disk
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(f"personaplex.{name}" for name in on_disk)
    assert PROJECT["tool"]["setuptools"]["package-dir"] == {f"personaplex.{top}": top for top in TOP}


def test_no_module_lies_outside_a_package() -> None:
    modules = (Path(file) for file in package_files(ROOT) if file.endswith(".py"))
    assert [str(module) for module in modules if not (ROOT / module).with_name("__init__.py").is_file()] == []


def test_every_package_is_typed() -> None:
    assert [top for top in TOP if not (ROOT / top / "py.typed").is_file()] == []


def test_wheel_holds_every_file_and_nothing_else(wheel: list[str], source: Path) -> None:
    metadata = f"personaplex-{PROJECT['project']['version']}.dist-info/"
    inside = {name.removeprefix("personaplex/") for name in wheel if not name.startswith(metadata)}
    assert inside == package_files(source)


@pytest.mark.parametrize(
    "name",
    [
        "core/lm/model.py",
        "core/py.typed",
        "prompts/roles/teacher.txt",
        "samples/calls/clinic.wav",
        "samples/calls/parcel.flac",
        "samples/manifest.jsonl",
        "samples/models/nano/README.md",
        "samples/models/nano/model.safetensors",
        "samples/models/nano/voices/nano_f.wav",
        "samples/models/tiny/tokenizer.model",
        "samples/voices/agent_f.wav",
    ],
)
def test_wheel_holds(wheel: list[str], name: str) -> None:
    assert f"personaplex/{name}" in wheel


def test_constraints_pin_every_requirement() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for requirement in requirements():
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), f"{requirement} excludes {version} of constraints.txt"


def test_readme_has_commands() -> None:
    assert len(readme_commands()) > 3


@pytest.mark.parametrize("words", readme_commands(), ids=" ".join)
def test_readme_commands_parse(words: list[str]) -> None:
    """Subcommands, options and their values are ones that the command line takes; nothing is run."""
    found: Any = command()
    words = [word for word in words if word != "--help"]
    while hasattr(found, "commands"):
        name, *words = words
        found = found.commands[name]
    found.make_context(found.name, words, resilient_parsing=not words)


def test_readme_options_exist() -> None:
    commands: list[Any] = [command()]
    for group in commands:  # grows while it is walked
        commands.extend(getattr(group, "commands", {}).values())
    known = {name for found in commands for parameter in found.params for name in parameter.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README))
    assert named - known - {"--help"} == set()
