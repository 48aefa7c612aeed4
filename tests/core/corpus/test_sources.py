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

from personaplex.core.corpus.items import Item, PassedOver, Source
from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.results import write_run
from personaplex.core.corpus.sources import Product, expand, in_shard, item_seed, read_source
from personaplex.core.errors import UsageError
from personaplex.core.sampling.noise import MAX_SEED

NOWHERE = Path("/nowhere/out")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def ids(source: str | Path, pattern: str | None = None, output: Path = NOWHERE) -> list[str]:
    return [item.id for item in read_source(str(source), pattern, output).whole()]


def source_of(folder: Path, *rows: dict[str, Any]) -> Source:
    path = folder / "calls.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_source(str(path), None, NOWHERE)


def listed(folder: Path, *rows: dict[str, Any]) -> list[Item]:
    return source_of(folder, *rows).whole()


def refused(source: str | Path, pattern: str | None = None, output: Path = NOWHERE) -> str:
    with pytest.raises(UsageError) as caught:
        read_source(str(source), pattern, output)
    assert caught.value.mend
    return caught.value.what


# Directories


def test_a_directory_is_walked_in_sorted_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.wav", "a/2.WAV", "a/1.flac", "a-b/3.mp3", "a.ogg", "notes.txt", "a/list.json", "10.wav", "9.M4A")
    items = read_source(str(tmp_path), None, NOWHERE).whole()
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
    assert refused(tmp_path) == f"{tmp_path}: holds no audio files; 1 file that is no recording passed over: .txt"


def test_two_files_of_one_name_clash(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.flac", "b.wav")
    assert refused(tmp_path) == f'the id "a" stands for several items: {tmp_path}/a.flac, {tmp_path}/a.wav'


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_a_name_that_is_not_utf8_becomes_an_item(tmp_path: Path) -> None:
    """It fails alone when it is read, and two of them don't clash."""
    for name in (b"/\xff.wav", b"/\xfe.wav"):
        os.close(os.open(os.fsencode(tmp_path) + name, os.O_CREAT))
    items = read_source(str(tmp_path), None, NOWHERE).whole()
    assert {(item.id, item.source) for item in items} == {("\\xfe", "\\xfe.wav"), ("\\xff", "\\xff.wav")}
    assert all(item.path.is_file() for item in items)


def test_a_folder_that_cannot_be_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "b/c.wav")
    scan = os.scandir

    def forbidden(path: Any) -> Any:
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    source = read_source(str(tmp_path), None, NOWHERE)
    assert [item.id for item in source.items] == ["a"]
    (folder,) = source.refused
    assert (folder.id, folder.error.what) == ("b", f"{tmp_path / 'b'}: cannot be walked: Permission denied")
    assert refused(tmp_path / "b") == f"{tmp_path / 'b'}: cannot be walked: Permission denied"


# What is passed over


def passed_over(folder: Path, pattern: str | None = None, output: Path = NOWHERE) -> PassedOver:
    return read_source(str(folder), pattern, output).passed_over


def test_files_that_are_passed_over_are_counted_by_suffix(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.dss", "c/d.DSS", "c/e.ape", "c/bare", "a.txt", "a.json", "b.json", ".DS_Store")
    over = passed_over(tmp_path)
    assert over.files == {".dss": 2, ".ape": 1, "": 1, ".txt": 1, ".json": 2}
    assert over.lines() == [
        "4 files passed over: .dss, no suffix, .ape",
        "3 files that are no recordings passed over: .json, .txt",
    ]
    assert over.surprising() == over.lines()[:1]
    assert over.document()["files"] == {"": 1, ".json": 2, ".dss": 2, ".txt": 1, ".ape": 1}
    assert passed_over(tmp_path, "*.wav").lines() == []


def test_nothing_is_told_where_nothing_is_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", ".hidden/b.dss", "out/a.json")
    assert passed_over(tmp_path, output=tmp_path / "out") == PassedOver()


def test_a_folder_without_recordings_says_what_it_holds(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.dss", "in/b.ape", "linked/a.wav")
    assert refused(tmp_path / "in") == f"{tmp_path / 'in'}: holds no audio files; 2 files passed over: .ape, .dss"
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "x").symlink_to(tmp_path / "linked")
    assert refused(tmp_path / "links").endswith("holds no audio files; 1 folder that is a link passed over: x")


def test_what_runs_left_is_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "run1/a.wav", "b/run2/c.wav", "mine/d.wav", "e.agent.wav", "e.agent.mix.wav", "f.wav")
    for folder in ("run1", "b/run2"):
        write_run(tmp_path / folder, {}, {})
    (tmp_path / "mine" / "run.json").write_text('{"schema": "somebody.else/1"}')
    transcript = {"schema": "personaplex.transcript/1", "output": {"path": "e.agent.wav"}}
    (tmp_path / "e.agent.json").write_text(json.dumps(transcript))
    (tmp_path / "f.json").write_text(json.dumps(transcript))  # of another file
    source = read_source(str(tmp_path), None, NOWHERE)
    assert [item.id for item in source.items] == ["a", "f", "mine/d"]
    assert source.passed_over.lines()[:2] == [
        "2 folders of earlier runs passed over: b/run2, run1",
        "2 answers of earlier runs passed over: e.agent.mix.wav, e.agent.wav",
    ]
    assert ids(tmp_path, "*.wav") == ["a", "f", "mine/d"]


def test_answers_can_be_run_by_naming_their_folder(tmp_path: Path) -> None:
    write_run(tmp_path, {}, {})
    touch(tmp_path, "a.wav")
    (tmp_path / "a.json").write_text('{"schema": "personaplex.transcript/1", "output": {"path": "a.wav"}}')
    assert ids(tmp_path) == ["a"]


def test_kept_sound_of_goldens_is_no_call(tmp_path: Path) -> None:
    touch(tmp_path, "c.wav", "goldens/items/c.wav")
    golden = '{"schema": "personaplex.golden/1", "output": {"path": "c.wav"}}'
    (tmp_path / "goldens" / "items" / "c.json").write_text(golden)
    found = read_source(str(tmp_path), None, NOWHERE)
    assert [item.id for item in found.items] == ["c"]
    assert found.passed_over.answers == ["goldens/items/c.wav"]


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
        *("", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "./a", ".a", "a/.b", "a\0"),
        *("x" * 201, "é" * 101, "x" * 256 + "/a"),
    ],
)
def test_ids_that_can_name_no_file(tmp_path: Path, name: str) -> None:
    """Their rows alone are refused."""
    source = source_of(tmp_path, {"audio_filepath": "b.wav", "id": "b"}, {"audio_filepath": "a.wav", "id": name})
    assert [item.id for item in source.items] == ["b"]
    (row,) = source.refused
    assert f"{tmp_path / 'calls.jsonl'}" in row.error.what
    assert "row 2" in row.error.what
    assert row.error.mend


NAMES = [
    *(
        "a",
        "a.b",
        "Ünïcode 你好",
        "a..b",
        "x" * 200,
        "-a",
        "a b",
        "Rec at 1.23.45\u202fPM",
        "a\nb",
        "a\x1b[1m",
        "\u202ea",
    ),
    *("trail.", "trail ", " a", "cafe\u0301", "zero\u200dwidth", "\ue000"),
]


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such names")
def test_names_that_a_file_system_allows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    touch(tmp_path / "in", *(f"{name}.wav" for name in (*NAMES, "a\\b")))
    assert sorted(ids(tmp_path / "in")) == sorted([*NAMES, "a\\b"])


def test_a_name_that_is_too_long_is_refused_alone(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "x" * 240 + ".wav")
    source = read_source(str(tmp_path), None, NOWHERE)
    assert [item.id for item in source.items] == ["a"]
    assert [row.id for row in source.refused] == ["x" * 240]
    assert "its name is 240 bytes long, of 200 at most" in source.refused[0].error.what


def test_a_row_in_a_hidden_folder_has_its_path_without_the_dots(tmp_path: Path) -> None:
    rows = ({"audio_filepath": ".cache/a.wav"}, {"audio_filepath": "/x/.cache/.b/c.wav"}, {"audio_filepath": ".d.wav"})
    assert [item.id for item in listed(tmp_path, *rows)] == ["cache/a", "x/cache/b/c", "d"]


def test_a_bad_row_of_csv_has_the_id_that_it_would_have(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("audio_filepath,id,offset,seed\na.wav,,2.5,x\nb.wav,17,,x\nc.wav,,y,x\nd.wav\n,,,7\n")
    assert [one.id for one in read_source(str(path), None, NOWHERE).refused] == ["a@2.5s", "17", "c", "d", "row-6"]
    assert [one.id for one in source_of(tmp_path, {"audio_filepath": "a", "id": 17.0, "seed": -1}).refused] == ["17"]


def test_refused_rows_have_the_id_that_they_would_have(tmp_path: Path) -> None:
    """So that the row of results goes when the row is mended; one that names nothing is called by its number."""
    rows = [
        {"audio_filepath": "a.wav"},
        {"audio_filepath": "b.wav", "id": "mine", "seed": -1, "ticket": 5},
        {"audio_filepath": "c.wav", "offset": 2.5, "seed": -1},
        {"id": "row-5"},
        {"lang": "en"},
        {"audio_filepath": "a.wav", "seed": -1},
    ]
    refused = source_of(tmp_path, *rows).refused
    assert [(one.id, one.row) for one in refused] == [
        ("mine", None),
        ("c@2.5s", None),
        ("row-4", 4),
        ("row-5+", 5),
        ("row-6", 6),
    ]
    assert (refused[0].source, refused[0].own) == ("b.wav", {"ticket": 5})
    assert [one.source for one in refused[2:]] == [None, None, "a.wav"]


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("C:\\calls\\c.wav", "is a path of Windows"),
        ("C:/calls/c.wav", "is a path of Windows"),
        ("\\\\server\\c.wav", "is a path of Windows"),
        ("calls\\c.wav", "is a path of Windows"),
        (" c.wav ", "starts or ends with a blank"),
        ("carrier-pigeon://loft/c.wav", "is in no kind of store"),
        ("~/c.wav", "starts with ~"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="of paths as others have them")
def test_paths_that_are_none_here(tmp_path: Path, path: str, fault: str) -> None:
    (row,) = source_of(tmp_path, {"audio_filepath": "a.wav"}, {"audio_filepath": path}).refused
    assert row.error.what.startswith(f"{tmp_path / 'calls.jsonl'}, row 2: ")
    assert fault in row.error.what
    (row,) = source_of(tmp_path, {"audio_filepath": "a.wav"}, {"audio_filepath": path, "id": "x"}).refused
    assert (row.id, fault in row.error.what) == ("x", True)


def test_an_odd_path_is_taken_if_there_is_such_a_file(tmp_path: Path) -> None:
    touch(tmp_path, " a.wav", "~b.wav")
    assert [one.id for one in listed(tmp_path, {"audio_filepath": " a.wav"}, {"audio_filepath": "~b.wav"})] == [
        " a",
        "~b",
    ]


@pytest.mark.parametrize("name", ["a", "a.b", "a/b", "Ünïcode 你好", "a..b", "x" * 200, "-a", "a b"])
def test_ids_that_can(tmp_path: Path, name: str) -> None:
    (item,) = listed(tmp_path, {"audio_filepath": "a.wav", "id": name})
    assert item.id == name


@pytest.mark.parametrize("path", [".", "x/..", "/", "", "..."])
def test_paths_without_a_name_need_an_id(tmp_path: Path, path: str) -> None:
    (row,) = source_of(tmp_path, {"audio_filepath": path}).refused
    assert "row 1" in row.error.what


def test_csv_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_bytes(b"\xef\xbb\xbfaudio_filepath,id\r\na.wav,one\r\nb.wav,\r\n")
    items = read_source(str(path), None, NOWHERE).whole()
    assert [(item.id, item.where) for item in items] == [("one", f"{path}, row 2"), ("b", f"{path}, row 3")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_with_a_mark(tmp_path: Path, encoding: str) -> None:
    """As spreadsheets save "Unicode text"."""
    text = "audio_filepath\tid\r\ncafé.wav\t\r\n"
    (tmp_path / "calls.csv").write_bytes((text if encoding == "utf-16" else f"\ufeff{text}").encode(encoding))
    assert ids(tmp_path / "calls.csv") == ["café"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    text = mark + '{"audio_filepath": "calls/é.wav"}\n'.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    (item,) = read_source("-", None, NOWHERE).whole()
    assert (item.id, item.path, item.where) == ("calls/é", Path("calls/é.wav"), "standard input, row 1")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("calls.txt", b"a.wav", "not a directory, a .jsonl or a .csv"),
        ("call.wav", b"RIFF", "not a directory, a .jsonl or a .csv"),
        ("calls", None, "No such file or directory"),
        ("call.wav", None, "No such file or directory"),
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
