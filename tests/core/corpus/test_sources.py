"""From a directory, a manifest or standard input to items; an id, a seed and a shard follow from the item alone."""

from __future__ import annotations

import io
import json
import os
import random
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.sources import Item, Product, expand, in_shard, item_seed, read_source
from personaplex.core.errors import UsageError
from personaplex.core.sampling.noise import MAX_SEED

NOWHERE = Path("/nowhere/out")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def ids(source: str | Path, pattern: str | None = None, output: Path = NOWHERE) -> list[str]:
    return [item.id for item in read_source(str(source), pattern, output)]


def listed(folder: Path, *rows: dict[str, Any]) -> list[Item]:
    path = folder / "calls.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_source(str(path), None, NOWHERE)


def refused(source: str | Path, pattern: str | None = None, output: Path = NOWHERE) -> str:
    with pytest.raises(UsageError) as caught:
        read_source(str(source), pattern, output)
    assert caught.value.mend
    return caught.value.what


# Directories


def test_a_directory_is_walked_in_sorted_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.wav", "a/2.WAV", "a/1.flac", "a-b/3.mp3", "a.ogg", "notes.txt", "a/list.json", "10.wav", "9.wav")
    items = read_source(str(tmp_path), None, NOWHERE)
    assert [item.id for item in items] == ["10", "9", "a/1", "a/2", "a-b/3", "a", "b"]
    assert [item.source for item in items][2:4] == ["a/1.flac", "a/2.WAV"]
    assert items[2].path == tmp_path / "a" / "1.flac"
    assert items[2].where == str(tmp_path / "a" / "1.flac")


def test_hidden_files_and_folders_are_skipped(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", ".b.wav", ".hidden/c.wav", ".a.123.0a1b2c3d.part.wav", "d/.e.wav")
    assert ids(tmp_path) == ids(tmp_path, "*") == ["a"]


def test_links_to_files_are_taken_and_to_folders_are_not(tmp_path: Path) -> None:
    touch(tmp_path, "calls/a.wav", "elsewhere/b.wav")
    (tmp_path / "calls" / "linked.wav").symlink_to(tmp_path / "elsewhere" / "b.wav")
    (tmp_path / "calls" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "calls" / "back").symlink_to(tmp_path)
    assert ids(tmp_path / "calls") == ids(tmp_path / "calls", "*.wav") == ["a", "linked"]


def test_the_output_folder_is_not_walked(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "out/a.wav", "b/out/c.wav")
    assert ids(tmp_path, output=tmp_path / "out") == ["a", "b/out/c"]
    assert ids(tmp_path, output=tmp_path / "b" / ".." / "out") == ["a", "b/out/c"]


def test_outputs_among_the_inputs_need_a_glob(tmp_path: Path) -> None:
    touch(tmp_path, "a.flac", "b.wav")
    assert "would lie among the inputs" in refused(tmp_path, output=tmp_path)
    assert ids(tmp_path, "*.flac", output=tmp_path) == ["a"]


def test_glob(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.raw", "c/a.wav", "c/b.flac", "c/d/a.wav")
    assert ids(tmp_path, "*.wav") == ids(tmp_path, "**/*.wav") == ["a", "c/a", "c/d/a"]
    assert ids(tmp_path, "c/*.wav") == ["c/a"]
    assert ids(tmp_path, "c/**/*.wav") == ["c/a", "c/d/a"]
    assert ids(tmp_path, "*.raw") == ["b"]
    assert refused(tmp_path, "*.mp3") == f"{tmp_path}: holds no audio files that match *.mp3"
    assert refused(tmp_path, "/a.wav").startswith('--glob "/a.wav" makes no sense')


def test_an_empty_directory(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt")
    assert refused(tmp_path) == f"{tmp_path}: holds no audio files"


def test_two_files_of_one_name_clash(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.flac", "b.wav")
    assert refused(tmp_path) == f'the id "a" stands for several items: {tmp_path}/a.flac, {tmp_path}/a.wav'


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_a_name_that_is_not_utf8_becomes_an_item(tmp_path: Path) -> None:
    """It fails alone when it is read."""
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.wav", os.O_CREAT))
    (item,) = read_source(str(tmp_path), None, NOWHERE)
    assert (item.id, item.source) == ("\ufffd", "\ufffd.wav")
    assert item.path.is_file()


def test_a_folder_that_cannot_be_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "b/c.wav")
    scan = os.scandir

    def forbidden(path: Any) -> Any:
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    assert refused(tmp_path) == f"{tmp_path / 'b'}: cannot be walked: Permission denied"


# Manifests


def test_paths_are_relative_to_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").mkdir()
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "lists", Path("lists")):
        (item,) = listed(folder, {"audio_filepath": "calls/./a.b.wav"})
        assert item.path == folder / "calls/a.b.wav"
        assert (item.id, item.source, item.folder) == ("calls/a.b", "calls/./a.b.wav", folder)
        assert item.where == f"{folder / 'calls.jsonl'}, row 1"


def test_an_absolute_path_below_the_manifest_counts_from_there(tmp_path: Path) -> None:
    (item,) = listed(tmp_path, {"audio_filepath": str(tmp_path / "calls" / "a.wav")})
    assert (item.id, item.path) == ("calls/a", tmp_path / "calls" / "a.wav")


def test_a_path_elsewhere_gives_the_whole_path(tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    items = listed(folder, {"audio_filepath": "/data/x/a.wav"}, {"audio_filepath": "../a.wav"})
    assert [item.id for item in items] == ["data/x/a", f"{tmp_path}/a".removeprefix("/")]


def test_segments_of_one_file(tmp_path: Path) -> None:
    rows = [{"audio_filepath": "a.wav", "offset": offset, "duration": 1.5} for offset in (0, 1.5, 1234.567, 1234.568)]
    assert [item.id for item in listed(tmp_path, *rows)] == ["a", "a@1.5s", "a@1234.567s", "a@1234.568s"]


def test_ids_of_rows_that_clash(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        listed(tmp_path, {"audio_filepath": "a.wav"}, {"audio_filepath": "b.wav"}, {"audio_filepath": "./a.mp3"})
    manifest = tmp_path / "calls.jsonl"
    assert caught.value.what == f'the id "a" stands for several items: {manifest}, row 1, {manifest}, row 3'


@pytest.mark.parametrize(
    "name",
    [
        *("", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "./a", ".a", "a/.b", "a\\b", "a\nb", "a\x1b[1m", "a\0"),
        *("\u202ea", "x" * 201, "é" * 101),
    ],
)
def test_ids_that_can_name_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        listed(tmp_path, {"audio_filepath": "b.wav", "id": "b"}, {"audio_filepath": "a.wav", "id": name})
    assert f"{tmp_path / 'calls.jsonl'}" in caught.value.what
    assert "row 2" in caught.value.what


@pytest.mark.parametrize("name", ["a", "a.b", "a/b", "Ünïcode 你好", "a..b", "x" * 200, "-a", "a b"])
def test_ids_that_can(tmp_path: Path, name: str) -> None:
    (item,) = listed(tmp_path, {"audio_filepath": "a.wav", "id": name})
    assert item.id == name


@pytest.mark.parametrize("path", [".", "x/..", "/", "", ".hidden.wav"])
def test_paths_without_a_name_need_an_id(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="row 1"):
        listed(tmp_path, {"audio_filepath": path})


def test_csv_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_bytes(b"\xef\xbb\xbfaudio_filepath,id\r\na.wav,one\r\nb.wav,\r\n")
    items = read_source(str(path), None, NOWHERE)
    assert [(item.id, item.where) for item in items] == [("one", f"{path}, row 2"), ("b", f"{path}, row 3")]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    text = mark + '{"audio_filepath": "calls/é.wav"}\n'.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    (item,) = read_source("-", None, NOWHERE)
    assert (item.id, item.path, item.where) == ("calls/é", Path("calls/é.wav"), "standard input, row 1")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("calls.txt", b"a.wav", "not a directory, a .jsonl or a .csv"),
        ("call.wav", b"RIFF", "not a directory, a .jsonl or a .csv"),
        ("calls.jsonl", b'{"audio_filepath": "\xff"}', "not UTF-8 text"),
        ("calls.jsonl", None, "No such file or directory"),
        ("calls.jsonl", b"", "holds no rows"),
    ],
)
def test_sources_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, fault: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert refused(tmp_path / name) == f"{tmp_path / name}: {fault}"


def test_a_glob_needs_a_directory(tmp_path: Path) -> None:
    touch(tmp_path, "calls.jsonl")
    assert "--glob" in refused(tmp_path / "calls.jsonl", "*.wav")


# Products


def item(name: str, **row: Any) -> Item:
    return Item(name, Path("x.wav"), "x.wav", f"row {len(name)}", Path(), Row(audio_filepath="x.wav", **row))


def test_a_product_repeats_every_item() -> None:
    items = [item("a", text_prompt="Hello.", seed=1), item("b", voice_prompt="v.wav")]
    made = expand(items, Product(("NATM1", "my/own.voice.wav"), ("teacher", "clinic"), (7,)))
    assert [one.id for one in made][:4] == [
        "a.NATM1.teacher.seed7",
        "a.NATM1.clinic.seed7",
        "a.own.voice.teacher.seed7",
        "a.own.voice.clinic.seed7",
    ]
    assert len(made) == 8
    assert [(one.voice, one.row.role, one.row.text_prompt, item_seed(one, 3)) for one in made[:2]] == [
        ("NATM1", "teacher", None, 7),
        ("NATM1", "clinic", None, 7),
    ]
    assert expand(items, Product()) == items


def test_a_product_whose_ids_clash() -> None:
    with pytest.raises(UsageError, match=r'the id "a\.v" stands for several items'):
        expand([item("a")], Product(voices=("x/v.wav", "y/v.wav")))
    with pytest.raises(UsageError, match="can't name output files"):
        expand([item("a")], Product(roles=("/.b",)))


# Properties

names = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=8)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
labels = st.lists(names, max_size=3, unique=True).map(tuple)
some_seeds = st.lists(st.integers(0, MAX_SEED), max_size=3, unique=True).map(tuple)


@given(st.lists(paths, min_size=1, max_size=6, unique=True), st.randoms(use_true_random=False), st.data())
def test_an_id_follows_from_the_row_alone(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], shuffle: random.Random, data: st.DataObject
) -> None:
    """Not from the order, nor from the other rows."""
    folder = tmp_path_factory.getbasetemp()
    roots = st.sampled_from(["", f"{folder}/", "/data/", "../other/"])
    rows = [{"audio_filepath": f"{data.draw(roots)}{name}.wav"} for name in names]
    try:
        together = {item.source: item.id for item in listed(folder, *rows)}
    except UsageError:  # the same file twice, written in two ways
        return
    shuffle.shuffle(rows)
    assert {item.source: item.id for item in listed(folder, *rows)} == together
    assert {source: listed(folder, {"audio_filepath": source})[0].id for source in together} == together


@given(st.lists(paths, unique=True, max_size=6), labels, labels, some_seeds)
def test_expanded_ids_are_unique(
    names: list[str], voices: tuple[str, ...], roles: tuple[str, ...], seeds: tuple[int, ...]
) -> None:
    made = expand([item(name) for name in names], Product(voices, roles, seeds))
    assert len({one.id for one in made}) == len(made)
    assert len(made) == len(names) * max(1, len(voices)) * max(1, len(roles)) * max(1, len(seeds))


@given(paths, st.integers(0, MAX_SEED))
def test_a_seed_follows_from_the_id_and_the_runs_seed(name: str, seed: int) -> None:
    drawn = item_seed(item(name), seed)
    assert 0 <= drawn < 2**53
    assert drawn == item_seed(item(name, channel="left", offset=3.0), seed)
    assert drawn != item_seed(item(f"{name}x"), seed)
    assert drawn != item_seed(item(name), seed + 1)
    assert item_seed(item(name, seed=5), seed) == 5


def test_a_seed_stays_what_it_is() -> None:
    """Of every version: or a resumed run would begin anew."""
    assert item_seed(item("a/1"), 42_424_242) == 2_783_190_211_376_270


@given(st.lists(paths, unique=True), st.integers(1, 5))
def test_shards_share_out_the_items(names: list[str], count: int) -> None:
    items = [item(name) for name in names]
    shares = [[one.id for one in items if in_shard(one, index, count)] for index in range(1, count + 1)]
    assert sorted(chain.from_iterable(shares)) == sorted(names)
    backwards = [[one.id for one in reversed(items) if in_shard(one, index, count)] for index in range(1, count + 1)]
    assert [share[::-1] for share in backwards] == shares


def test_shards_are_even() -> None:
    items = [item(f"calls/{number:05}") for number in range(4000)]
    sizes = [sum(in_shard(one, index, 4) for one in items) for index in (1, 2, 3, 4)]
    assert all(900 < size < 1100 for size in sizes)
