import errno
import json
from pathlib import Path

import pytest

from personaplex.core.errors import InputError
from personaplex.core.files import Staged, replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with replacing(path) as part:
        part.write_bytes(b"new")
        assert not path.exists()
        assert part.parent == tmp_path
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("name", ["a.wav", "a.mix.wav", "a.frames.json", "results.jsonl", "x" * 251 + ".wav"])
def test_no_search_finds_the_temporary_file(tmp_path: Path, name: str) -> None:
    """`pathlib` and `find` look at hidden files too."""
    with replacing(tmp_path / name) as part:
        part.write_text("half")
        assert names(tmp_path) == [part.name]
        assert part.name.startswith(".")
        for pattern in ("*.wav", "*.wav*", "*.json*", "a*", "*.tokens.*", "*.srt", "[!.]*"):
            assert not part.match(pattern)
    assert names(tmp_path) == [name]


def test_files_take_their_places_together(tmp_path: Path) -> None:
    paths = [tmp_path / "b.json", tmp_path / "a.wav"]
    with Staged() as staged:
        for path in paths:
            staged.write(path, path.name.encode())
            assert not path.exists()
        assert list(staged.paths) == paths
        staged.place()
        assert names(tmp_path) == ["a.wav", "b.json"]
    assert [path.read_bytes() for path in paths] == [b"b.json", b"a.wav"]


def stage_half(folder: Path) -> None:
    with Staged() as staged:
        staged.write(folder / "a.wav", b"new")
        staged.write(folder / "nowhere" / "a.json", b"new")


def place_half(folder: Path) -> None:
    with Staged() as staged:
        staged.write(folder / "b.wav", b"new")
        staged.write(folder / "a.json", b"new")
        (folder / "a.json").mkdir()
        staged.place()


def test_none_takes_its_place_if_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("old")
    with pytest.raises(InputError, match=r"a\.json: cannot write: No such file"):
        stage_half(tmp_path)
    assert (tmp_path / "a.wav").read_text() == "old"
    with pytest.raises(InputError, match=r"a\.json: cannot write"):
        place_half(tmp_path)
    assert names(tmp_path) == ["a.json", "a.wav"]


@pytest.mark.parametrize("broken", range(1, 6))
def test_if_a_renaming_fails_all_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int) -> None:
    """Three stand aside, two take their places."""
    for name in ("a.wav", "a.json", "a.srt"):
        (tmp_path / name).write_text("old")
    rename, left = Path.replace, [broken]

    def breaks(path: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return rename(path, target)

    with Staged() as staged:
        for name in ("a.wav", "a.json"):
            staged.write(tmp_path / name, b"new")
        monkeypatch.setattr(Path, "replace", breaks)
        with pytest.raises(InputError, match="cannot write: Operation not permitted"):
            staged.place(removed=[tmp_path / "a.srt"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.wav": "old",
        "a.json": "old",
        "a.srt": "old",
    }


def test_the_transcript_is_the_first_to_stand_aside_and_the_last_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what a kill leaves is told by one transcript or the other."""
    for name in ("a.wav", "a.json", "a.srt"):
        (tmp_path / name).write_text("old")
    rename, seen = Path.replace, []

    def watched(path: Path, target: Path) -> Path:
        seen.append(path.name if path.suffix != ".part" else target.name)
        return rename(path, target)

    with Staged() as staged:
        for name in ("a.wav", "a.json"):
            staged.write(tmp_path / name, b"new")
        monkeypatch.setattr(Path, "replace", watched)
        staged.place(removed=[tmp_path / "a.srt"])
    assert seen == ["a.json", "a.wav", "a.srt", "a.wav", "a.json"]
    assert names(tmp_path) == ["a.json", "a.wav"]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "a").read_text() == "one"


def write_half(path: Path, error: type[BaseException]) -> None:
    with replacing(path) as part:
        part.write_text("half")
        raise error


def write_to_full_disk(path: Path) -> None:
    with replacing(path) as part:
        part.symlink_to("/dev/full")
        part.write_bytes(b"x")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with pytest.raises(InputError) as caught:
        write_to_full_disk(path)
    assert caught.value.what == f"{path}: cannot write: No space left on device"
    assert "free some space" in caught.value.mend
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO])
def test_system_errors_are_told(tmp_path: Path, code: int) -> None:
    path = tmp_path / "a.wav"
    with pytest.raises(InputError, match=r"a\.wav: cannot write: it broke") as caught, replacing(path):
        raise OSError(code, "it broke")
    assert caught.value.mend


def test_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "b" / "a.wav"
    with pytest.raises(InputError, match="cannot write: No such file") as caught, replacing(path) as part:
        part.write_bytes(b"x")
    assert caught.value.mend == "create the folder first"


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    with pytest.raises(InputError, match="cannot write: Not a directory"), replacing(tmp_path / "b" / "a.wav") as part:
        part.write_bytes(b"x")
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "b" / "a.txt", "x")


@pytest.mark.parametrize("name", ["", "/dev/null"])
def test_only_files_are_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name  # the folder itself, or the device
    with pytest.raises(InputError, match="it is a folder or a device"), replacing(path):
        pytest.fail("nothing may be written")
    assert not path.is_file()


def test_a_name_that_is_not_utf8_can_be_written(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json", '"caf\udce9"')
    assert json.loads((tmp_path / "a.json").read_bytes()) == "caf\udce9"


def test_write_text_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "b" / "c" / "a.json"
    write_text(path, "“né”\n")
    assert path.read_bytes() == "“né”\n".encode()
    assert names(path.parent) == ["a.json"]
