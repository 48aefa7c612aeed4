"""The voices that are on this machine: in the user's folders, or among those published, once they are fetched."""

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from personaplex.core.errors import UsageError, VoiceError
from personaplex.core.weights import hub
from personaplex.core.weights.published import TERMS, VOICES, has_voices
from personaplex.samples.catalog import voice_folders
from personaplex.voices.catalogue import CATALOGUE, STORED, VARIABLE, find, find_in, folders, places, voice_files


@dataclass(frozen=True)
class ListedVoice:
    """A voice that can be named.

    kind: natural or varied for a published one; stored or recording for another, whose sex nobody has told.
    path: its file; None if it is not on this machine or not unpacked yet.
    archive: the archive that holds it packed.
    """

    name: str
    sex: str | None
    kind: str
    path: Path | None = None
    archive: Path | None = None


def listed_voices(folder: Path | None) -> list[ListedVoice]:
    """The catalogue, then the package's voices, then all others in `folders(folder)`; downloads and unpacks nothing.

    Raises UsageError for a folder that can't be read.
    """
    among = places(folder)
    files = [path for place in (*voice_folders(), *folders(folder)) for path in _files(place)]
    archive = cached_archive()
    unpacked = _unpacked(archive) if archive else None
    rows = []
    for voice in CATALOGUE:
        path = find_in(among, voice.name)
        if path is None and unpacked:
            path = next(unpacked.rglob(f"{voice.name}.pt"), None)
        packed = archive if path is None and not unpacked else None
        rows.append(ListedVoice(voice.name, voice.sex, voice.kind, path, packed))
    taken = {row.path for row in rows}
    for path in files:
        if path not in taken:
            kind = "stored" if path.suffix.lower() in STORED else "recording"
            rows.append(ListedVoice(_name_of(path, among), None, kind, path))
    return rows


def find_here(name: str, folder: Path | None) -> Path:
    """As `catalogue.find`, without any download; raises VoiceError for a voice that is not on this machine."""

    def published() -> Path:
        archive = cached_archive()
        if archive is None:
            mend = "`personaplex models fetch` downloads the published voices"
            raise VoiceError(f"voice {name!r} is not on this machine", mend)
        return hub.unpacked_voices(archive)

    return find(name, folder, published)


def cached_archive() -> Path | None:
    """The archive of published voices in the hub's cache: of several revisions the one that was fetched last.

    That of the published 7B goes before those of models made from it.
    """
    for repo in filter(has_voices, TERMS):
        folder = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repo, repo_type="model"))
        archives = [path for path in folder.glob(f"snapshots/*/{VOICES}") if path.is_file()]
        if archives:
            return max(archives, key=lambda path: path.lstat().st_mtime)
    return None


def _unpacked(archive: Path) -> Path | None:
    """The folder that `hub.unpacked_voices` has made of `archive`, if it has; None too for one that can't be read."""
    try:
        folder = hub.voices_folder(archive)
    except VoiceError:
        return None
    return folder if folder.is_dir() else None


def _files(place: Path) -> list[Path]:
    try:
        return voice_files(place)
    except OSError as error:
        mend = f"check --voice-prompt-dir and {VARIABLE}"
        raise UsageError(f"{place}: the folder of voices can't be read: {error.strerror}", mend) from error


def _name_of(path: Path, among: list[Path]) -> str:
    """The shortest name by which `find` gives the file `path` of one of the folders."""
    return next((name for name in (path.stem, path.name) if find_in(among, name) == path), str(path))
