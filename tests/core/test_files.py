import errno
from pathlib import Path

import pytest

from personaplex.core.errors import InputError
from personaplex.core.files import replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with replacing(path) as part:
        part.write_bytes(b"new")
        assert not path.exists()
        assert part.parent == tmp_path
        assert part.name.startswith(".a.")
        assert part.suffix == ".wav"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.wav"]


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


def test_write_text_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "b" / "c" / "a.json"
    write_text(path, "“né”\n")
    assert path.read_bytes() == "“né”\n".encode()
    assert names(path.parent) == ["a.json"]
