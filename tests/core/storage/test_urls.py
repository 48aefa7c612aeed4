"""What a URL is, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from personaplex.core.storage.urls import Stored, is_url, url_of_path, without_secrets


@pytest.mark.parametrize("text", ["s3://bucket/a", "S3://bucket", "file:///a", "abfs+x://a@b/c", "s3://"])
def test_urls(text: str) -> None:
    assert is_url(text)


@pytest.mark.parametrize("text", ["calls", "a:b/c", "C:/calls", "C://calls", "./s3://a", "s3:/a", "-", "", "://a"])
def test_paths(text: str) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    ("folder", "name", "there"),
    [
        ("s3://b/calls", "a.wav", "s3://b/calls/a.wav"),
        ("s3://b/calls/", "x/a b#?%20.wav", "s3://b/calls/x/a b#?%20.wav"),
        ("s3://b/lists", "../calls/a.wav", "s3://b/calls/a.wav"),
        ("s3://b/lists", "./a.wav", "s3://b/lists/a.wav"),
        ("s3://b/lists", "gs://c/a.wav", "gs://c/a.wav"),
        ("file:///lists", "../a.wav", "file:///a.wav"),
    ],
)
def test_below_a_folder(folder: str, name: str, there: str) -> None:
    assert (Stored(folder) / name).url == there


def test_parts() -> None:
    stored = Stored("S3://bucket/a/b?c#d.WAV")
    assert (stored.scheme, stored.path.name, stored.path.suffix) == ("s3", "b?c#d.WAV", ".WAV")
    assert stored.parent.url == "s3://bucket/a"
    assert Stored("https://example.org/a/b.wav?sig=1").path.name == "b.wav"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sftp://me:secret@host/a", "sftp://host/a"),
        ("sftp://me:se@cret@host/a@b:c", "sftp://host/a@b:c"),
        ("abfs://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net/a"),
        ("GET https://h/a?X-Amz-Signature=1 and 'http://h/b?c=d'", "GET https://h/a and 'http://h/b'"),
        ("s3://bucket/what?.wav", "s3://bucket/what?.wav"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
    ],
)
def test_secrets_are_left_out(text: str, told: str) -> None:
    assert without_secrets(text) == told


def test_nothing_tells_secrets() -> None:
    stored = Stored("ftp://me:secret@host/a")
    assert "secret" not in f"{stored} {stored!r}"


def test_a_path_that_was_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert url_of_path(Path("s3://bucket/a")) == "s3://bucket/a"
    assert url_of_path(Path("a:b/c")) is None
    assert url_of_path(Path("C:/calls")) is None
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "a").touch()
    assert url_of_path(Path("s3:/a")) is None
