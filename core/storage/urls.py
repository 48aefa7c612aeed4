"""Where something lies in a store: its URL, which is told without credentials."""

import os
import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL)  # one letter is a drive of Windows
_URL_AS_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!$)")
_PASSWORD = re.compile(r"(?<=://)[^\s/@:]*:[^\s/]*@")
_QUERY = re.compile(r"(https?://[^\s?'\"<>]*)\?[^\s'\"<>]*", re.IGNORECASE)  # which signs an address


def is_url(text: str) -> bool:
    """Whether a text is a URL rather than a path."""
    return _URL.fullmatch(text) is not None


def url_of_path(path: Path) -> str | None:
    """The URL that a path was made of, which has cost it a slash; None for other paths, and for what is here."""
    match = _URL_AS_PATH.match(str(path))
    return None if match is None or os.path.lexists(path) else f"{match[0]}/{str(path)[match.end() :]}"


def without_secrets(text: str) -> str:
    """A text in which no URL has a password or a signature."""
    return _QUERY.sub(r"\1", _PASSWORD.sub("", text))


@dataclass(frozen=True)
class Stored:
    """An object or a folder in a store; as a string, its URL without credentials.

    `version` tells one content of an object from another, as a listing has it.
    """

    url: str = field(repr=False)
    version: str | None = None

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __truediv__(self, name: str) -> "Stored":
        """What lies below this folder; `name` may step upwards, or be a URL of its own."""
        if is_url(name):
            return Stored(name)
        path = f"{self._rest.rstrip('/')}/{name}"
        if {".", ".."} & set(name.split("/")):
            path = posixpath.normpath(path)
        return Stored(f"{self.scheme}://{path}")

    @property
    def scheme(self) -> str:
        """Which kind of store it is, such as `s3`."""
        return self._parts[0]

    @property
    def path(self) -> PurePosixPath:
        """The URL without its scheme, for its name and its suffix."""
        rest = self._rest.partition("?")[0] if self.scheme in {"http", "https"} else self._rest
        return PurePosixPath(rest)

    @property
    def parent(self) -> "Stored":
        """The folder that it lies in."""
        return Stored(f"{self.scheme}://{self._rest.rstrip('/').rpartition('/')[0]}")

    @property
    def _rest(self) -> str:
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, str]:
        match = _URL.fullmatch(self.url)
        if match is None:
            raise ValueError(f"{self} is no URL")
        return match["scheme"].lower(), match["rest"]
