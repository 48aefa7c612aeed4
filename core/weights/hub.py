"""Files from Hugging Face, pinned to a revision, and archives of voices, unpacked where they can do no harm.

huggingface_hub itself honours HF_HOME, HF_HUB_OFFLINE, HF_TOKEN and HF_ENDPOINT. Here its many errors become one
`ModelError` that says what to do. Unpacked voices live in the cache of this package, `cache_folder()`.
"""

import errno
import hashlib
import os
import re
import tarfile
import textwrap
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from personaplex.core.errors import ModelError, VoiceError
from personaplex.core.weights.published import FILES, INDEX, Q8
from personaplex.core.weights.shards import shard_names

_SITE = "https://huggingface.co"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOCKED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MOST_BYTES = 4 * 2**30
_MOST_MEMBERS = 10_000
_ANOTHER_ARCHIVE = "delete it and fetch it again; nothing of it was unpacked"


def fetch(repo: str, filename: str, revision: str | None = None) -> Path:
    """The local path of a repository's file, downloaded unless the cache holds it; a `ModelError` if neither works."""
    try:
        return Path(huggingface_hub.hf_hub_download(repo, filename, revision=revision))
    except Exception as error:  # the errors of its transports come through the library, and they share no base
        raise told_error(error, repo, filename, revision) from error


def fetch_weights(repo: str, revision: str | None = None) -> list[Path]:
    """The language model's files: `[model.safetensors]`, or the index followed by its shards, all of one commit.

    Of a repository without either, `[model.q8.safetensors]`.
    """
    try:
        return [fetch(repo, FILES.lm, revision)]
    except ModelError as error:
        if not isinstance(error.__cause__, EntryNotFoundError):
            raise
        index = _in_its_place(repo, revision, error)
    if index.name != INDEX:
        return [index]
    commit = revision_of(index)
    return [index, *(fetch(repo, shard, commit) for shard in shard_names(index))]


def revision_of(path: Path) -> str:
    """The commit (40 hex digits) of a file that `fetch` gave; a `ValueError` for any other path."""
    found = re.search(r"/models--[^/]+/snapshots/([0-9a-f]{40})/", path.as_posix())
    if not found:
        raise ValueError(f"{path} is not in a Hugging Face cache")
    return found[1]


def _in_its_place(repo: str, revision: str | None, absent: ModelError) -> Path:
    """The index, or the weights in int8, of a model whose usual file is `absent`: raised if there is neither."""
    if isinstance(absent.__cause__, LocalEntryNotFoundError):  # the hub can't be asked: don't wait for it twice
        cached = (huggingface_hub.try_to_load_from_cache(repo, name, revision=revision) for name in (INDEX, Q8))
        found = next((path for path in cached if isinstance(path, str)), None)
        if found is None:
            raise absent
        return Path(found)
    for name in (INDEX, Q8):
        try:
            return fetch(repo, name, revision)
        except ModelError as error:
            if not _is_remote_absence(error.__cause__):
                raise
    raise absent from absent.__cause__


def _is_remote_absence(error: BaseException | None) -> bool:
    return isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError)


def told_error(error: Exception, repo: str, filename: str, revision: str | None) -> ModelError:
    """`error` in the user's words: what the repository said, else what the disk or the network did."""
    cause = error
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        cause = error.__cause__  # "not in the cache" is the end of it; its cause is why nothing could be downloaded
    page = f"{_SITE}/{repo}"
    at = f" at revision {revision}" if revision else ""
    if isinstance(cause, GatedRepoError):
        return ModelError(
            f"{repo}: the repository is gated, and you have no access to it yet",
            f"accept its licence at {page}, then run `hf auth login` or set HF_TOKEN",
        )
    if isinstance(cause, RepositoryNotFoundError):
        return ModelError(
            f"{repo}: Hugging Face has no such repository, or it is private",
            f"check the name at {page}; if it is private, run `hf auth login` or set HF_TOKEN",
        )
    if isinstance(cause, RevisionNotFoundError):
        return ModelError(f"{repo}: has no revision {revision}", f"choose one from {page}/commits/main")
    if isinstance(cause, OfflineModeIsEnabled):
        pin = f" --revision {revision}" if revision else ""
        return ModelError(
            f"{repo}: {filename}{at} is not in the cache, and HF_HUB_OFFLINE forbids downloads",
            f"unset HF_HUB_OFFLINE and, while online, run `personaplex models fetch {repo}{pin}`",
        )
    if _is_remote_absence(cause):
        return ModelError(f"{repo}: has no file {filename}{at}", f"see {page}/tree/{revision or 'main'}")
    if isinstance(cause, HFValidationError):
        return ModelError(f"{repo!r} can't be the name of a repository", "write it as owner/name")
    return _refused(cause, repo, filename) or _failed(cause, repo, filename)


def _refused(error: Exception, repo: str, filename: str) -> ModelError | None:
    """What a status without a meaning of its own says of `filename`; `None` when there was no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    tokens = f"{_SITE}/settings/tokens"
    if status == 401:
        return ModelError(
            f"{repo}: Hugging Face does not accept your token",
            f"make a new one at {tokens}, then run `hf auth login` or set HF_TOKEN",
        )
    if status == 403:
        return ModelError(
            f"{repo}: your token may not read {filename}",
            f"let the token read public gated repositories at {tokens}, or use another by `hf auth login` or HF_TOKEN",
        )
    if status is not None:
        return ModelError(f"{repo}: Hugging Face answered {status} for {filename}", "try again later")
    return None


def _failed(error: Exception, repo: str, filename: str) -> ModelError:
    """Nothing was refused: the disk is full or locked, or the network failed."""
    number = error.errno if isinstance(error, OSError) else None
    cache = constants.HF_HUB_CACHE
    reason = textwrap.shorten(f"{type(error).__name__}: {error}", 160, placeholder=" …")
    # The library's Rust downloader tells of a full disk in words alone.
    if number in _FULL or "no space left" in str(error).lower():
        return ModelError(
            f"{repo}: no space left for {filename} in the cache {cache}",
            "free some, or set HF_HOME to a folder on a larger disk",
        )
    if number in _LOCKED:
        return ModelError(
            f"{repo}: {filename} can't be written to the cache {cache} ({reason})",
            "make that folder writable, or set HF_HOME to one that is",
        )
    return ModelError(
        f"{repo}: {filename} could not be downloaded ({reason})",
        "check the network, HTTPS_PROXY and HF_ENDPOINT, then run the command again",
    )


def cache_folder() -> Path:
    """PERSONAPLEX_CACHE, or else `personaplex` in XDG_CACHE_HOME or `~/.cache`; it need not exist."""
    own = os.environ.get("PERSONAPLEX_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(own or f"{shared}/personaplex"))


def unpacked_voices(archive: Path) -> Path:
    """The folder in the cache that holds what `archive` (a `voices.tgz`) does, unpacked when it is new."""
    return unpack(archive, voices_folder(archive))


def voices_folder(archive: Path) -> Path:
    """Where `unpacked_voices` unpacks `archive`, whether it has or not; a `VoiceError` if that can't be read."""
    try:
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise VoiceError(f"{archive}: {error.strerror}", "fetch the archive of voices again") from error
    return cache_folder() / "voices" / digest[:16]


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a tar archive as the new folder `folder`, whole or not at all; an existing `folder` is left as it is.

    Raises `VoiceError` for an archive that is broken or too large, that holds anything but files and folders, or
    that would write outside `folder`. Several processes may do this at once.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".unpacking-", dir=folder.parent) as scratch:
            content = Path(scratch, "content")
            content.mkdir()
            _extract(archive, content)
            _move(content, folder)
    except VoiceError:
        raise
    except Exception as error:  # a broken archive makes tarfile and the decompressors raise all kinds
        if isinstance(error, OSError) and error.errno:
            raise VoiceError(
                f"{archive}: could not be unpacked in {folder.parent}: {error.strerror}",
                "free some space or make that folder writable, or set PERSONAPLEX_CACHE to another",
            ) from error
        raise VoiceError(f"{archive}: broken, or not a tar archive ({error})", _ANOTHER_ARCHIVE) from error
    return folder


def _extract(archive: Path, folder: Path) -> None:
    size = 0
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar, start=1):
            size += member.size
            problem = _problem(member)
            if problem:
                raise VoiceError(f"{archive}: the member {member.name!r} {problem}", _ANOTHER_ARCHIVE)
            if number > _MOST_MEMBERS or size > _MOST_BYTES:
                most = f"{_MOST_MEMBERS:,} members or {_MOST_BYTES >> 30} GiB"
                raise VoiceError(f"{archive}: unpacks to more than {most}", _ANOTHER_ARCHIVE)
            tar.extract(member, folder, filter="data")
        # The checksum stands at the end of the compressed file, past the archive's own end.
        while tar.fileobj is not None and tar.fileobj.read(2**20):
            pass


def _problem(member: tarfile.TarInfo) -> str | None:
    path = PureWindowsPath(member.name)  # knows the separators and the roots of every system
    if path.anchor or ".." in path.parts:
        return "would be written outside the folder"
    if not (member.isfile() or member.isdir()):
        return "is neither a file nor a folder"
    return None


def _move(content: Path, folder: Path) -> None:
    try:
        content.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first, with the same content
            raise
