"""Where the page's players find the sound of a lane: in the file that it lies in, or in an MP3 made of it."""

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from personaplex.compare.reports.sound import mp3, mp3_uri
from personaplex.core.audio.reading import Samples, probe, read
from personaplex.core.files import make_folder, replacing
from personaplex.runs.measures.recordings import Recording

_PLAYED = {".wav", ".flac", ".mp3", ".ogg"}  # by every browser, as long as they hold what such files mostly hold


class Sounds(Protocol):
    """Gives the address of a sound, for a call's number and a lane's name; raises InputError."""

    def address(self, sound: Recording, number: int, lane: str) -> str:
        """What an audio element takes as its `src`."""


class Inside:
    """Sounds that the page holds itself."""

    def address(self, sound: Recording, number: int, lane: str) -> str:
        """A data URI."""
        return mp3_uri(_samples(sound))


class Beside:
    """Sounds that a page in `folder` links to; what no player can pick out of its file is put into `sound/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address(self, sound: Recording, number: int, lane: str) -> str:
        """A path relative to the page."""
        if _is_played_as_it_is(sound):
            path = sound.path
        else:
            path = self._folder / "sound" / f"{number}.{lane}.mp3"
            make_folder(path.parent)
            with replacing(path) as part:
                part.write_bytes(mp3(_samples(sound)))
        relative = os.path.relpath(os.path.realpath(path), os.path.realpath(self._folder))
        return quote(Path(relative).as_posix())


def _is_played_as_it_is(sound: Recording) -> bool:
    """Whether a file is the whole sound and no more."""
    whole = not sound.offset and sound.duration is None
    return whole and sound.path.suffix.lower() in _PLAYED and probe(sound.path).channels == 1


def _samples(sound: Recording) -> Samples:
    return read(sound.path, channel=sound.channel, offset=sound.offset, duration=sound.duration).samples
