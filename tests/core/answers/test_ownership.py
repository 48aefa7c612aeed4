"""What an answer may replace and remove: what was made for it, as it was made, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.answers.ownership import made_files, place, refuse_foreign
from personaplex.core.errors import InputError
from personaplex.core.files import Staged

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "personaplex.transcript/1"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_answer(folder: Path, text: str, *names: str, clears: bool = True) -> None:
    """An answer's files, whose content is `text`, and its transcript, as a run leaves them."""
    with Staged() as staged:
        for name in names:
            staged.write(folder / name, text.encode())
        document = {"schema": SCHEMA, "text": text, "files": {name: sha256(text) for name in names}}
        staged.write(folder / "a.json", json.dumps(document).encode())
        place(staged, folder / "a.json", clears=clears)


def texts(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in sorted(os.listdir(folder)) if name != "a.json"}


def refused(folder: Path, *names: str, made: Any = None) -> str:
    try:
        refuse_foreign([folder / name for name in (*names, "a.json")], folder / "a.json", made or {})
    except InputError as error:
        return error.what.removeprefix(f"{folder}/")
    return ""


def test_an_answer_gives_way_to_the_next(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.wav") == ""
    write_answer(tmp_path, "one", "a.wav", "a.srt", "a.mix.wav")
    assert refused(tmp_path, "a.wav", "a.vtt") == ""
    write_answer(tmp_path, "two", "a.wav", "a.vtt")
    assert texts(tmp_path) == {"a.wav": "two", "a.vtt": "two"}
    assert json.loads((tmp_path / "a.json").read_text())["text"] == "two"


def test_what_it_left_is_removed_unless_it_was_changed(tmp_path: Path) -> None:
    write_answer(tmp_path, "one", "a.wav", "a.mix.wav", "a.srt", "a.vtt", "a.ctm")
    (tmp_path / "a.srt").write_text("corrected by hand")
    (tmp_path / "a.ctm").unlink()
    (tmp_path / "a.TextGrid").write_text("annotated by hand")
    write_answer(tmp_path, "two", "a.wav", "a.vtt")
    kept = {"a.srt": "corrected by hand", "a.TextGrid": "annotated by hand"}
    assert texts(tmp_path) == {"a.wav": "two", "a.vtt": "two", **kept}
    write_answer(tmp_path, "three", "a.wav", clears=False)
    assert texts(tmp_path) == {"a.wav": "three", "a.vtt": "two", **kept}


@pytest.mark.parametrize("name", ["a.wav", "a.srt"])
def test_a_file_of_somebody_else(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    foreign = f"{name}: is there and was not made for this item, and is not replaced"
    assert refused(tmp_path, "a.wav", "a.srt") == foreign
    (tmp_path / name).unlink()
    write_answer(tmp_path, "one", *{"a.wav", "a.srt"} - {name})
    (tmp_path / name).write_text("mine")
    assert refused(tmp_path, "a.wav", "a.srt") == foreign
    assert refused(tmp_path, *{"a.wav", "a.srt"} - {name}) == ""


def test_a_file_that_was_changed(tmp_path: Path) -> None:
    write_answer(tmp_path, "one", "a.wav", "a.srt")
    (tmp_path / "a.wav").write_text("louder")
    assert refused(tmp_path, "a.wav") == "a.wav: was changed after it was made, and is not replaced"
    assert refused(tmp_path, "a.srt") == ""


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"whisper": "mine"}', '{"schema": "personaplex.transcript/2"}'])
def test_a_json_that_is_no_transcript_of_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert refused(tmp_path) == "a.json: is there and was not made for this item, and is not replaced"


@pytest.mark.parametrize("name", ["a.wav", "a.json"])
@pytest.mark.parametrize("target", ["nothing", "kept"])
def test_a_link_or_a_folder_is_somebody_elses(tmp_path: Path, name: str, target: str) -> None:
    write_answer(tmp_path, "one", "a.wav")
    (tmp_path / name).rename(tmp_path / "kept")
    (tmp_path / name).symlink_to(target)
    asked = {"a.wav"} & {name}
    assert refused(tmp_path, *asked).startswith(f"{name}: ")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert refused(tmp_path, *asked).startswith(f"{name}: ")


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "a.json")
    assert refused(tmp_path) == "a.json: is there and was not made for this item, and is not replaced"


@pytest.mark.parametrize("depth", ["a.json", "deeper/still/a.json"])
@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("nothing")])
def test_a_file_where_the_folder_should_be(tmp_path: Path, make: Any, depth: str) -> None:
    make(tmp_path / "sub")
    path = tmp_path / "sub" / depth
    with pytest.raises(InputError, match=r"sub: is there and is no folder, and is not replaced"):
        refuse_foreign([path], path, {})
    (tmp_path / "sub").unlink()
    refuse_foreign([path], path, {})
    (tmp_path / "real").mkdir()
    (tmp_path / "sub").symlink_to("real")
    refuse_foreign([path], path, {})


def test_a_row_of_results_knows_them_too(tmp_path: Path) -> None:
    """When the transcript is lost."""
    (tmp_path / "a.wav").write_text("one")
    row = {"id": "x/a", "files": {"a.wav": sha256("one"), "../b.wav": "x", "": "y"}}
    made = made_files(row, tmp_path)
    assert made == {tmp_path / "a.wav": sha256("one")}
    assert refused(tmp_path, "a.wav", made=made) == ""
    assert made_files({"files": ["a.wav"]}, tmp_path) == made_files({}, tmp_path) == made_files(None, tmp_path) == {}


def test_an_answer_that_cannot_take_its_place_leaves_the_older_one(tmp_path: Path) -> None:
    write_answer(tmp_path, "one", "a.wav")
    before = (tmp_path / "a.json").read_text()
    with Staged() as staged:
        staged.write(tmp_path / "a.mix.wav", b"two")
        staged.write(tmp_path / "a.json", b"two")
        (tmp_path / "a.mix.wav").mkdir()
        with pytest.raises(InputError, match=r"a\.mix\.wav: cannot write"):
            place(staged, tmp_path / "a.json", clears=True)
    assert (tmp_path / "a.json").read_text() == before
    assert sorted(os.listdir(tmp_path)) == ["a.json", "a.mix.wav", "a.wav"]
