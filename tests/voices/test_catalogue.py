"""Finding a voice: a path, then the folder, then the catalogue; and a word on what came close."""

from pathlib import Path

import pytest

from personaplex.core.errors import VoiceError
from personaplex.samples.catalog import model_folder
from personaplex.voices.catalogue import CATALOGUE, SUFFIXES, VARIABLE, find, find_local


def no_archive() -> Path:
    raise AssertionError("the archive is not needed, and may be a download")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The archive's folder as it is published, but for NATF3."""
    folder = tmp_path / "unpacked" / "voices"
    folder.mkdir(parents=True)
    for voice in CATALOGUE:
        if voice.name != "NATF3":
            (folder / f"{voice.name}.pt").touch()
            (folder / f"._{voice.name}.pt").touch()
    return folder.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.mkdir()
    return path


def test_the_catalogue_is_the_published_one() -> None:
    assert len({voice.name for voice in CATALOGUE}) == len(CATALOGUE) == 18
    of = {voice.name: (voice.sex, voice.kind) for voice in CATALOGUE}
    assert of["NATF0"] == ("female", "natural")
    assert of["NATM3"] == ("male", "natural")
    assert of["VARF4"] == ("female", "varied")
    assert of["VARM0"] == ("male", "varied")


@pytest.mark.parametrize("name", ["NATM1", "NATM1.pt"])
def test_a_published_voice_comes_from_the_archive(archive: Path, folder: Path, name: str) -> None:
    assert find(name, None, lambda: archive) == archive / "voices" / "NATM1.pt"
    assert find(name, folder, lambda: archive) == archive / "voices" / "NATM1.pt"


def test_an_existing_path_is_taken_as_it_is(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "NATM1").touch()
    Path("NATM1").touch()
    assert find("NATM1", folder, no_archive) == Path("NATM1")
    assert find(str(folder / "NATM1"), None, no_archive) == folder / "NATM1"


@pytest.mark.parametrize("name", ["nano_f", "nano_f.wav"])
def test_a_packaged_voice_needs_no_path(folder: Path, name: str) -> None:
    path = model_folder("nano") / "voices" / "nano_f.wav"
    assert find(name, None, no_archive) == find_local(name, None) == path
    (folder / "nano_f.wav").touch()
    assert find(name, folder, no_archive) == folder / "nano_f.wav"
    with pytest.raises(VoiceError) as caught:
        find("nano_ff", None, no_archive)
    assert "did you mean nano_f" in str(caught.value.mend)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_folder_comes_before_the_archive(folder: Path, suffix: str) -> None:
    path = folder / f"NATM1{suffix}"
    path.touch()
    assert find("NATM1", folder, no_archive) == path
    assert find(f"NATM1{suffix}", folder, no_archive) == path


def test_a_stored_voice_comes_before_a_recording(folder: Path) -> None:
    for suffix in reversed(SUFFIXES):
        (folder / f"anna.v2{suffix}").touch()
    assert find("anna.v2", folder, no_archive) == folder / "anna.v2.pt"


@pytest.mark.parametrize("name", ["NATM9", "natm1", "nobody", "", ".", "a/b.wav", "no\0thing", "x" * 5000])
def test_an_unknown_voice_is_told_with_where_it_was_sought(folder: Path, name: str) -> None:
    with pytest.raises(VoiceError) as caught:
        find(name, folder, no_archive)
    assert repr(name) in caught.value.what
    assert str(folder) in caught.value.what
    assert "catalogue" in caught.value.what
    assert "personaplex voices list" in caught.value.mend


@pytest.mark.parametrize(("name", "close"), [("natm1", "NATM1"), ("VARF9.pt", "VARF"), ("ana.wav", "Anna")])
def test_names_that_come_close_are_offered(folder: Path, name: str, close: str) -> None:
    (folder / "Anna.wav").touch()
    with pytest.raises(VoiceError) as caught:
        find(name, folder, no_archive)
    assert f"did you mean {close}" in caught.value.mend


def test_nothing_close_offers_nothing() -> None:
    with pytest.raises(VoiceError) as caught:
        find("zzz.wav", Path("no such folder"), no_archive)
    assert "did you mean" not in caught.value.mend


def test_an_archive_without_the_voice_is_told(archive: Path) -> None:
    with pytest.raises(VoiceError, match="'NATF3'") as caught:
        find("NATF3", None, lambda: archive)
    assert str(archive) in caught.value.what


def test_the_users_own_folder_comes_after_the_one_that_is_given(
    folder: Path, tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for path in (own / "anna.pt", folder / "anna.wav", own / "bert.wav", own / "NATM1.pt"):
        path.touch()
    monkeypatch.setenv(VARIABLE, str(own))
    assert find("anna", folder, no_archive) == folder / "anna.wav"
    assert find("anna", None, no_archive) == own / "anna.pt"
    assert find_local("bert", folder) == own / "bert.wav"
    assert find("NATM1", folder, no_archive) == own / "NATM1.pt"
    assert find("NATM2", folder, lambda: archive) == archive / "voices" / "NATM2.pt"
    with pytest.raises(VoiceError, match="did you mean bert") as caught:
        find("Bert", folder, no_archive)
    assert f"not in the folder {folder}, not in the folder {own}" in caught.value.what


def test_an_empty_variable_names_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(VoiceError) as caught:
        find("nobody", None, no_archive)
    assert "folder" not in caught.value.what
