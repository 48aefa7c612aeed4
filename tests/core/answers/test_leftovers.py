"""What earlier runs left of an item is removed; nothing else is, whatever its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from personaplex.core.answers.leftovers import discard, item_paths, sweep
from personaplex.core.files import remove_stale_parts

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


def test_parts_of_a_killed_process_are_removed(item: OutputPaths, gone: int) -> None:
    touch(item, *(f".{name.rpartition('.')[0]}.{gone}.0a1b2c3d.part.{name.rpartition('.')[2]}" for name in MADE))
    assert len(names(item)) == len(MADE)
    sweep([item])
    assert names(item) == []


def test_a_part_with_our_own_number_is_of_a_process_before_us(item: OutputPaths) -> None:
    touch(item, f".a.{os.getpid()}.0a1b2c3d.part.wav")
    sweep([item])
    assert names(item) == []


def test_parts_of_others_stay(item: OutputPaths, gone: int) -> None:
    alive = os.getppid()
    touch(
        item,
        f".a.{alive}.0a1b2c3d.part.wav",  # still being written
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


def test_an_older_runs_outputs_go_before_an_item_is_made_again(item: OutputPaths) -> None:
    others = ["a.txt", "a.flac", "a.b.wav", "b.wav"]
    touch(item, *MADE, *others)
    item.json.write_text(json.dumps({"schema": "personaplex.transcript/1"}))
    discard(item)
    assert names(item) == sorted(others)


@pytest.mark.parametrize("content", [None, "{}", "[]", '{"schema": "another"}'])
def test_without_a_transcript_of_ours_all_stays(item: OutputPaths, content: str | None) -> None:
    touch(item, *MADE)
    if content is None:
        item.json.unlink()
    else:
        item.json.write_text(content)
    before = names(item)
    discard(item)
    assert names(item) == before
