"""Archives: whole and inside their folder, or not at all."""

import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex.core.errors import VoiceError
from personaplex.core.weights import hub
from personaplex.core.weights.hub import cache_folder, unpack, unpacked_voices

CONTENT = {"voices/NATF0.pt": b"first " * 500, "voices/NATM1.pt": os.urandom(2000)}


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def tgz(*members: tarfile.TarInfo) -> bytes:
    """A good archive, with `members` (without data) at its end."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.addfile(member("voices", tarfile.DIRTYPE))
        for name, data in CONTENT.items():
            tar.addfile(member(name, size=len(data)), io.BytesIO(data))
        for info in members:
            tar.addfile(info)
    return file.getvalue()


GOOD = tgz()


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "voices.tgz"
    path.write_bytes(GOOD)
    return path


def test_a_good_archive_is_unpacked_and_nothing_else_is_left(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert unpack(archive, folder) == folder
    assert files(folder) == CONTENT
    assert os.listdir(folder.parent) == ["b"]


def test_what_is_unpacked_is_used_again(archive: Path, tmp_path: Path) -> None:
    folder = unpack(archive, tmp_path / "out")
    archive.write_bytes(b"broken since")
    assert unpack(archive, folder) == folder
    assert files(folder) == CONTENT


BAD = [
    pytest.param(member("../escaped", size=0), "outside", id="parent"),
    pytest.param(member("voices/../../escaped"), "outside", id="parent inside"),
    pytest.param(member("/tmp/escaped"), "outside", id="absolute"),  # noqa: S108
    pytest.param(member("C:\\escaped"), "outside", id="drive"),
    pytest.param(member("..\\escaped"), "outside", id="backslash"),
    pytest.param(member("link", tarfile.SYMTYPE, "/etc"), "neither a file nor a folder", id="symlink out"),
    pytest.param(member("voices/link", tarfile.SYMTYPE, "NATF0.pt"), "neither a file nor a folder", id="symlink in"),
    pytest.param(member("link", tarfile.LNKTYPE, "../voices.tgz"), "neither a file nor a folder", id="hard link out"),
    pytest.param(member("pipe", tarfile.FIFOTYPE), "neither a file nor a folder", id="pipe"),
    pytest.param(member("device", tarfile.CHRTYPE), "neither a file nor a folder", id="device"),
]


@pytest.mark.parametrize(("info", "why"), BAD)
def test_a_member_that_could_do_harm_is_named_and_nothing_left(
    archive: Path, tmp_path: Path, info: tarfile.TarInfo, why: str
) -> None:
    archive.write_bytes(tgz(info))
    with pytest.raises(VoiceError, match=why) as caught:
        unpack(archive, tmp_path / "in" / "out")
    assert repr(info.name) in caught.value.what
    assert str(archive) in caught.value.what
    assert os.listdir(tmp_path / "in") == []
    assert sorted(os.listdir(tmp_path)) == ["in", "voices.tgz"]


def test_an_archive_that_unpacks_to_too_much_is_refused_by_its_headers(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(tgz(member("huge", size=5 * 2**30)))
    with pytest.raises(VoiceError, match="4 GiB"):
        unpack(archive, tmp_path / "in" / "out")
    assert os.listdir(tmp_path / "in") == []


def test_an_archive_of_too_many_members_is_refused(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_MOST_MEMBERS", 2)
    with pytest.raises(VoiceError, match="2 members"):
        unpack(archive, tmp_path / "out")


@settings(deadline=None)
@given(length=st.integers(0, len(GOOD) - 1))
def test_a_cut_archive_is_refused(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    (folder / "voices.tgz").write_bytes(GOOD[:length])
    with pytest.raises(VoiceError, match="broken"):
        unpack(folder / "voices.tgz", folder / "out")
    assert os.listdir(folder) == ["voices.tgz"]


@settings(deadline=None)
@given(at=st.integers(0, len(GOOD) - 1), flip=st.integers(1, 255))
def test_a_damaged_archive_is_refused_unless_its_content_is_whole(
    tmp_path_factory: pytest.TempPathFactory, at: int, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    damaged = bytearray(GOOD)
    damaged[at] ^= flip
    (folder / "voices.tgz").write_bytes(damaged)
    try:
        assert files(unpack(folder / "voices.tgz", folder / "out")) == CONTENT
    except VoiceError:
        assert os.listdir(folder) == ["voices.tgz"]


def test_the_second_of_two_keeps_the_first_one_s_folder(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    extract = hub._extract

    def extract_while_another_finishes(source: Path, content: Path) -> None:
        extract(source, content)
        extract(source, folder)
        (folder / "first").touch()

    monkeypatch.setattr(hub, "_extract", extract_while_another_finishes)
    assert unpack(archive, folder) == folder
    assert files(folder) == {**CONTENT, "first": b""}
    assert sorted(os.listdir(tmp_path)) == ["out", "voices.tgz"]


def test_two_processes_at_once_both_get_the_whole(archive: Path, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from personaplex.core.weights.hub import unpacked_voices\n"
        "pathlib.Path(sys.argv[2]).touch()\n"
        "while not pathlib.Path('go').exists(): pass\n"
        "folder = unpacked_voices(pathlib.Path(sys.argv[1]))\n"
        "print(folder, len(list(folder.rglob('*.pt'))))\n"
    )
    environment = {**os.environ, "PERSONAPLEX_CACHE": str(tmp_path / "cache")}
    names = ("ready 1", "ready 2")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, archive, name],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    while not all((tmp_path / name).exists() or child.poll() for name, child in zip(names, children, strict=True)):
        time.sleep(0.01)
    (tmp_path / "go").touch()
    told = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    (folder,) = (tmp_path / "cache" / "voices").iterdir()
    assert told == [f"{folder} 2\n"] * 2
    assert files(folder) == CONTENT


def test_a_full_disk_is_told_with_the_folder(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, content: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hub, "_extract", full)
    with pytest.raises(VoiceError, match="No space left on device") as caught:
        unpack(archive, tmp_path / "in" / "out")
    assert str(tmp_path / "in") in caught.value.what
    assert "PERSONAPLEX_CACHE" in caught.value.mend


def test_a_file_in_the_folder_s_place_is_told(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(VoiceError, match="could not be unpacked"):
        unpack(archive, tmp_path / "out")


def test_voices_are_unpacked_by_the_archive_s_content(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(tmp_path / "cache"))
    first = unpacked_voices(archive)
    assert first.parent == tmp_path / "cache" / "voices"
    assert len(first.name) == 16
    assert unpacked_voices(archive) == first
    archive.write_bytes(tgz(member("voices/NATF1.pt")))
    assert unpacked_voices(archive) != first
    with pytest.raises(VoiceError, match="No such file"):
        unpacked_voices(tmp_path / "none.tgz")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "home/.cache/personaplex"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/personaplex"),
        ({"XDG_CACHE_HOME": "xdg", "PERSONAPLEX_CACHE": "own"}, "own"),
        ({"PERSONAPLEX_CACHE": "~/own"}, "home/own"),
        ({"XDG_CACHE_HOME": "", "PERSONAPLEX_CACHE": ""}, "home/.cache/personaplex"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name in ("XDG_CACHE_HOME", "PERSONAPLEX_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "home", **environment}.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
