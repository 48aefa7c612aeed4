"""The voices by name: those published with PersonaPlex-7B, those packaged, and where a voice asked for is found."""

import difflib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from personaplex.core.errors import VoiceError
from personaplex.samples.catalog import voice_folders

STORED = (".pt", ".safetensors")
SUFFIXES = (*STORED, ".wav", ".flac", ".ogg", ".mp3")
VARIABLE = "PERSONAPLEX_VOICES"
"""Names the user's own folder of voices."""


@dataclass(frozen=True)
class CatalogueVoice:
    """One of the published voices: a natural, conversational one, or one of the more varied set."""

    name: str
    sex: Literal["female", "male"]
    kind: Literal["natural", "varied"]


CATALOGUE: tuple[CatalogueVoice, ...] = (
    *(CatalogueVoice(f"NATF{n}", "female", "natural") for n in range(4)),
    *(CatalogueVoice(f"NATM{n}", "male", "natural") for n in range(4)),
    *(CatalogueVoice(f"VARF{n}", "female", "varied") for n in range(5)),
    *(CatalogueVoice(f"VARM{n}", "male", "varied") for n in range(5)),
)
_NAMES = tuple(voice.name for voice in CATALOGUE)


def folders(folder: Path | None) -> list[Path]:
    """The user's folders of voices: `folder`, then the one that PERSONAPLEX_VOICES names."""
    own = os.environ.get(VARIABLE)
    return [*([folder] if folder else []), *([Path(own).expanduser()] if own else [])]


def places(folder: Path | None) -> list[Path]:
    """Where voices are looked up by name: in `folders(folder)`, then in those of the package."""
    return [*folders(folder), *voice_folders()]


def find(name: str, folder: Path | None, archive: Callable[[], Path]) -> Path:
    """The file of the voice `name`: a path, a name in `places(folder)` or, with or without `.pt`, in the catalogue.

    `archive` gives the folder with the published voices in it, at any depth. It may have to download them, so it is
    called only for a name of the catalogue that is found nowhere else. Raises `VoiceError`, with the names that come
    close, for a voice that is nowhere.
    """
    local = find_local(name, folder)
    if local is not None:
        return local
    unpacked = archive()
    paths = sorted(unpacked.rglob(f"{name.removesuffix('.pt')}.pt"))
    if not paths:
        raise VoiceError(f"voice {name!r}: the model's archive of voices, unpacked in {unpacked}, lacks it")
    return paths[0]


def find_local(name: str, folder: Path | None) -> Path | None:
    """As `find`, but None for a voice of the catalogue, which comes with the model."""
    if os.path.isfile(name):
        return Path(name)
    found = find_in(places(folder), name)
    if found is None and name.removesuffix(".pt") not in _NAMES:
        raise _unknown(name, folders(folder))
    return found


def find_in(among: Iterable[Path], name: str) -> Path | None:
    """The file of the voice `name`, with or without its suffix, in the first of the folders that has it."""
    for place in among:
        for suffix in ("", *SUFFIXES):
            path = f"{place}/{name}{suffix}"
            if os.path.isfile(path):
                return Path(path)
    return None


def voice_files(place: Path) -> list[Path]:
    """The files of the folder `place` that can be voices, sorted; raises OSError."""
    paths = (path for path in sorted(place.iterdir()) if path.suffix.lower() in SUFFIXES)
    return [path for path in paths if path.is_file() and not path.name.startswith(".")]


def _unknown(name: str, own: Sequence[Path]) -> VoiceError:
    looked = "no file of that name"
    known = [*_NAMES, *(path.stem for place in voice_folders() for path in voice_files(place))]
    for place in own:
        looked += f", not in the folder {place}"
        if place.is_dir():
            known += [path.stem for path in voice_files(place)]
    by_lower = {other.lower(): other for other in known}
    wanted = name.lower()
    for suffix in SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    close = [by_lower[match] for match in difflib.get_close_matches(wanted, by_lower)]
    mend = f"did you mean {' or '.join(close)}? " if close else ""
    return VoiceError(
        f"voice {name!r} is unknown: {looked}, not in the catalogue",
        f"{mend}`personaplex voices list` shows the catalogue",
    )
