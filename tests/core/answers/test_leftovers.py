"""What earlier runs left of an item is removed; nothing else is, whatever its name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from personaplex.core.answers.leftovers import item_paths, left_behind, sweep
from personaplex.core.files import remove_stale_parts, temporary

if TYPE_CHECKING:
    from pathlib import Path

    from personaplex.core.answers.outputs import OutputPaths

MADE = [
    *("a.wav", "a.json", "a.mix.wav", "a.srt", "a.vtt", "a.ctm", "a.TextGrid", "a.frames.json"),
    "a.tokens.safetensors",
]


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return child.pid


@pytest.fixture
def item(tmp_path: Path) -> OutputPaths:
    """The paths of an item `sub/a`."""
    (tmp_path / "sub").mkdir()
    return item_paths(tmp_path, "sub/a", mix=False)


def names(item: OutputPaths) -> list[str]:
    return sorted(os.listdir(item.wav.parent))


def touch(item: OutputPaths, *files: str) -> None:
    for name in files:
        (item.wav.parent / name).touch()


def test_names(tmp_path: Path) -> None:
    paths = item_paths(tmp_path, "x/a.b", mix=True)
    assert [path.relative_to(tmp_path).as_posix() for path in (paths.wav, paths.json)] == ["x/a.b.wav", "x/a.b.json"]
    assert paths.mix == tmp_path / "x" / "a.b.mix.wav"
    assert item_paths(tmp_path, "a", mix=False).mix is None


def part_of(item: OutputPaths, name: str, process: int) -> str:
    """The name of a temporary file that a process made for another."""
    return temporary(item.wav.with_name(name)).name.replace(f".{os.getpid()}.", f".{process}.")


def test_parts_of_a_killed_process_are_removed(item: OutputPaths, gone: int) -> None:
    touch(item, *(part_of(item, name, gone) for name in MADE))
    # as versions before this one named them
    touch(item, *(f".{name.rpartition('.')[0]}.{gone}.0a1b2c3d.part.{name.rpartition('.')[2]}" for name in MADE))
    assert len(names(item)) == 2 * len(MADE)
    sweep([item])
    assert names(item) == []


def test_a_part_with_our_own_number_is_of_a_process_before_us(item: OutputPaths) -> None:
    touch(item, f".a.{os.getpid()}.0a1b2c3d.part.wav", temporary(item.wav).name)
    sweep([item])
    assert names(item) == []


def test_parts_of_others_stay(item: OutputPaths, gone: int) -> None:
    alive = os.getppid()
    touch(
        item,
        part_of(item, "a.wav", alive),  # still being written
        part_of(item, "b.wav", gone),  # another item's
        part_of(item, "a.wav", gone) + ".wav",
        part_of(item, "a.wav", gone).replace(".part", ""),
        f".a.{alive}.0a1b2c3d.part.wav",
        f".b.{gone}.0a1b2c3d.part.wav",  # another item's
        f".a.b.{gone}.0a1b2c3d.part.wav",
        f".a.{gone}.0a1b2c3d.part.flac",  # nothing we write
        f".a.{gone}.0a1b2c3.part.wav",
        f".a.{gone}.0a1b2c3d.part.wav.bak",
        f"a.{gone}.0a1b2c3d.part.wav",
        f".a.{gone}.part.wav",
        ".a.x.0a1b2c3d.part.wav",
        ".a.wav.part",
        "a.wav",
    )
    before = names(item)
    sweep([item])
    assert names(item) == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    sweep([item_paths(tmp_path, "nowhere/a", mix=False)])
    assert os.listdir(tmp_path) == []


def test_a_name_without_suffix(tmp_path: Path, gone: int) -> None:
    part = tmp_path / f".a.{gone}.0a1b2c3d.part"
    part.touch()
    remove_stale_parts([tmp_path / "b", tmp_path / "a.wav"])
    assert part.exists()
    remove_stale_parts([tmp_path / "a"])
    assert not part.exists()


def test_an_orphan_is_told_by_the_transcript_that_was_to_come(item: OutputPaths, gone: int) -> None:
    folder = item.wav.parent
    for name, content in (("a.wav", "new"), ("a.srt", "mine"), ("a.mix.wav", "owned"), ("a.vtt", "new, but changed")):
        (folder / name).write_text(content)
    files = {name: sha256(content) for name, content in (("a.wav", "new"), ("a.mix.wav", "owned"), ("a.vtt", "new"))}
    (folder / part_of(item, "a.json", gone)).write_text(json.dumps({"files": files}))
    item.json.write_text(json.dumps({"files": {"a.mix.wav": sha256("owned")}}))
    before = names(item)
    assert {path.name for path in left_behind([item])} == {"a.wav", part_of_any(before)}
    assert names(item) == before
    sweep([item])
    assert names(item) == ["a.json", "a.mix.wav", "a.srt", "a.vtt"]


def part_of_any(found: list[str]) -> str:
    return next(name for name in found if name.endswith(".part"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
