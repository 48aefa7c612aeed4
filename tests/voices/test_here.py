"""Voices on this machine, in folders and in the hub's cache, without any download."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from huggingface_hub import constants

from personaplex.core.errors import UsageError, VoiceError
from personaplex.core.weights import hub
from personaplex.core.weights.published import VOICES
from personaplex.voices.catalogue import CATALOGUE, VARIABLE
from personaplex.voices.here import ListedVoice, cached_archive, find_here, listed_voices

PACKAGED = ("agent_f", "agent_m", "nano_f", "nano_m")

SNAPSHOTS = "models--nvidia--personaplex-7b-v1/snapshots"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache and an empty cache of unpacked voices; any download fails."""

    def fetch(*_: object) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr(hub, "fetch", fetch)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(tmp_path / "unpacked"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "hub" / SNAPSHOTS


@pytest.fixture
def archive(cache: Path) -> Path:
    """The published archive, as the hub's cache holds it."""
    path = cache / ("a" * 40) / VOICES
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as tar:
        for voice in CATALOGUE:
            tar.addfile(tarfile.TarInfo(f"voices/{voice.name}.pt"), io.BytesIO())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.mkdir()
    return path


def test_the_packaged_ones_alone_are_here() -> None:
    rows = listed_voices(None)
    published, packaged = rows[: len(CATALOGUE)], rows[len(CATALOGUE) :]
    assert published == [ListedVoice(voice.name, voice.sex, voice.kind) for voice in CATALOGUE]
    assert [(row.name, row.kind) for row in packaged] == [(name, "recording") for name in PACKAGED]
    assert all(find_here(row.name, None) == row.path for row in packaged)
    with pytest.raises(VoiceError, match="'NATM1' is not on this machine") as caught:
        find_here("NATM1", None)
    assert "personaplex models fetch" in caught.value.mend


def test_the_archive_is_told_then_what_was_unpacked(archive: Path, tmp_path: Path) -> None:
    assert {(row.path, row.archive) for row in listed_voices(None)[: len(CATALOGUE)]} == {(None, archive)}
    assert not (tmp_path / "unpacked").exists()
    found = find_here("NATM1", None)
    assert found.is_relative_to(tmp_path / "unpacked")
    rows = {row.name: row for row in listed_voices(None)}
    assert rows["NATM1"].path == found
    assert all(row.path and row.archive is None for row in rows.values())


def test_the_latest_archive_is_taken(archive: Path, cache: Path) -> None:
    later = cache / ("0" * 40) / VOICES
    later.parent.mkdir()
    later.touch()
    os.utime(archive, (1, 1))
    assert cached_archive() == later


def test_those_of_a_model_made_from_it_do_where_its_own_are_not(cache: Path) -> None:
    made_from_it = cache.parents[1] / "models--kyutai--personaplex-rl-seamless" / "snapshots" / ("b" * 40) / VOICES
    made_from_it.parent.mkdir(parents=True)
    made_from_it.touch()
    assert cached_archive() == made_from_it
    own = cache / ("a" * 40) / VOICES
    own.parent.mkdir(parents=True)
    own.touch()
    os.utime(own, (1, 1))
    assert cached_archive() == own


def test_files_of_the_folders_join_the_catalogue(
    folder: Path, tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv(VARIABLE, str(own))
    for path in (folder / "anna.pt", folder / "anna.wav", folder / "NATM1.pt", own / "anna.pt", own / "bert.flac"):
        path.touch()
    (folder / "notes.txt").touch()
    (folder / ".hidden.pt").touch()
    (folder / "folder.pt").mkdir()
    rows = listed_voices(folder)
    assert {row.name: row for row in rows}["NATM1"] == ListedVoice("NATM1", "male", "natural", folder / "NATM1.pt")
    assert rows[len(CATALOGUE) + len(PACKAGED) :] == [
        ListedVoice("anna", None, "stored", folder / "anna.pt"),
        ListedVoice("anna.wav", None, "recording", folder / "anna.wav"),
        ListedVoice(str(own / "anna.pt"), None, "stored", own / "anna.pt"),
        ListedVoice("bert", None, "recording", own / "bert.flac"),
    ]
    assert all(find_here(row.name, folder) == row.path for row in rows if row.path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="nix: the folder of voices can't be read"):
        listed_voices(tmp_path / "nix")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nix"))
    with pytest.raises(UsageError, match="nix: the folder of voices can't be read") as caught:
        listed_voices(None)
    assert VARIABLE in caught.value.mend
