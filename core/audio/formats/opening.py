"""Opening a recording of any format, with what the user is told if that fails."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from personaplex.core.audio.formats.media import SHARED, MediaSource, media_format
from personaplex.core.audio.formats.sndfile import SoundFileSource, UnreadableError
from personaplex.core.audio.formats.source import CONVERT, Source
from personaplex.core.audio.sound import Sound, SoundSource
from personaplex.core.errors import InputError

_MENDS = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name an audio file inside it",
    errno.EACCES: "make the file readable for this user",
}
_UNKNOWN_LENGTH = "its header does not say how long it is, and PyAV, which would tell, is not installed"
_HEADERLESS = {".vox", ".gsm"}  # telephony's formats that have no header
_TEXT = 4096  # bytes to look at


@contextmanager
def opened(path: Path | Sound) -> Iterator[Source]:
    """The recording `path`, known to hold sound of a known length; raises `InputError`."""
    source = SoundSource(path) if isinstance(path, Sound) else _file_source(path)
    with closing(source):
        if not source.header.frames:
            raise InputError(f"{path}: holds no audio", "check how it was recorded, or leave it out")
        yield source


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the system's errors into `InputError`."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, "check the file and the disk it lies on")
        raise InputError(f"{path}: cannot be read: {error.strerror or error}", mend) from error


def _check_file(path: Path) -> None:
    """Find what a decoder would say less clearly, or not at all."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:  # such a path can be neither opened nor written to a transcript
        raise InputError(f"{os.fsencode(path)!r}: the name is not valid UTF-8", "rename the file") from error
    with reading(path):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is a pipe or a device, not a file", "save the audio to a file first")
        if not status.st_size:
            raise InputError(f"{path}: is empty (0 bytes)", "check how it was copied or recorded, or leave it out")
        path.open("rb").close()


def _file_source(path: Path) -> Source:
    _check_file(path)
    with reading(path):
        return _source(path)


def _source(path: Path) -> Source:
    """By libsndfile if it knows the format, else by FFmpeg."""
    if path.suffix.lower() == ".raw":
        raise InputError(f"{path}: raw audio does not say its rate and width", "convert it to a WAV")
    try:
        source = SoundFileSource(path)
    except UnreadableError as error:
        # libsndfile says "does not exist" of an .mp3 without MPEG frames, but the file was there a moment ago.
        reason = "no audio found in it" if "not exist" in str(error) else str(error)
        name = media_format(path)
        if name is None:
            raise InputError(f"{path}: is not audio that can be read: {reason}", CONVERT) from error
        if name in SHARED:
            return MediaSource(path, name, f"is not audio that can be read without PyAV: {reason}")
        return MediaSource(path, name, f"only PyAV can read its format ({name}), and PyAV is not installed")
    if source.guessed and not _believable(path):
        source.close()
        raise InputError(f"{path}: is not audio that can be read: it lacks the header of its format", CONVERT)
    if source.unknown_length:
        source.close()
        return MediaSource(path, media_format(path) or "flac", _UNKNOWN_LENGTH)
    return source


def _believable(path: Path) -> bool:
    """Whether a file without a header may be sound: by its name, and since it is no text."""
    with path.open("rb") as file:
        return path.suffix.lower() in _HEADERLESS and not file.read(_TEXT).isascii()
