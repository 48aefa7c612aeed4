"""One side's sound: where it comes from, and how it gets into an export."""

import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from personaplex.core.audio.formats.opening import reading
from personaplex.core.audio.reading import Samples, probe, read
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.errors import InputError

PLAIN = (".wav", ".flac")
"""Files that every reader of data sets knows, and that may be handed on as they are."""


@dataclass(frozen=True)
class Track:
    """A file's sound: `channel` None is the whole file, of one channel, else what is read of it."""

    path: Path
    channel: str | None = None
    offset: float = 0.0
    duration: float | None = None

    def is_plain(self, suffixes: tuple[str, ...] = PLAIN) -> bool:
        """Whether the file can be handed on as it is."""
        return self.channel is None and self.path.suffix.lower() in suffixes

    def samples(self, rate: int | None = None) -> tuple[Samples, int]:
        """The sound [N] at `rate`, or the file's own, and that rate; raises InputError."""
        rate = rate or probe(self.path).sample_rate
        channel = self.channel or "mix"
        found = read(self.path, channel=channel, rate=rate, offset=self.offset, duration=self.duration)
        return found.samples, rate

    def content(self, suffixes: tuple[str, ...] = PLAIN) -> tuple[str, bytes]:
        """The suffix and the bytes of a file that holds the sound; raises InputError."""
        if self.is_plain(suffixes):
            with reading(self.path):
                return self.path.suffix.lower(), self.path.read_bytes()
        return ".wav", wav(*self.samples())


@dataclass(frozen=True)
class Placed:
    """A sound's file in an export."""

    path: Path
    sample_rate: int
    frames: int

    @property
    def duration(self) -> float:
        """In seconds."""
        return self.frames / self.sample_rate


def place(track: Track, stem: Path, *, link: bool, suffixes: tuple[str, ...] = PLAIN) -> Placed:
    """Put a sound at `stem` with its suffix: a link to the file or a copy of it, or a WAV of what is used of it.

    A link leads to the file's real, absolute path. Raises InputError, and leaves nothing then.
    """
    suffix = track.path.suffix.lower() if track.is_plain(suffixes) else ".wav"
    path = stem.with_name(stem.name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not track.is_plain(suffixes):
        path.write_bytes(wav(*track.samples()))
    elif link:
        path.symlink_to(os.path.realpath(track.path))
    else:
        shutil.copyfile(track.path, path)
    try:
        return placed(path)
    except InputError:
        path.unlink()
        raise


def placed(path: Path, content: bytes | None = None) -> Placed:
    """A file's header, or that of its `content`; raises InputError for what is no sound."""
    try:
        with soundfile.SoundFile(path if content is None else io.BytesIO(content)) as file:
            return Placed(path, file.samplerate, file.frames)
    except (OSError, soundfile.SoundFileError) as error:
        raise InputError(f"{path}: is not sound that can be read ({error})") from error


def stereo(left: Track, right: Track) -> tuple[Samples, int]:
    """Two sounds as [N, 2] at 24 kHz, the shorter one followed by silence, and that rate; raises InputError."""
    sides = [track.samples(SAMPLE_RATE)[0] for track in (left, right)]
    length = max(map(len, sides))
    return np.stack([np.pad(side, (0, length - len(side))) for side in sides], axis=1), SAMPLE_RATE


def wav(samples: Samples, rate: int) -> bytes:
    """Sound [N] or [N, C] as a WAV of 16 bits; what lies beyond full scale is clipped."""
    made = io.BytesIO()
    soundfile.write(made, samples.clip(-1, 1), rate, format="WAV", subtype="PCM_16")
    return made.getvalue()


def track_of(path: Path, channel: str, offset: float, duration: float | None) -> Track:
    """What a call heard of the recording `path`; raises InputError for one that can't be read."""
    header = probe(path)
    is_whole = header.channels == 1 and not offset and duration is None
    if is_whole and channel not in ("mix", "left", "0"):
        raise InputError(f'{path}: has no channel "{channel}"')
    is_plain = is_whole and header.frames == _frames_for_others(path)
    return Track(path) if is_plain else Track(path, channel, offset, duration)


def _frames_for_others(path: Path) -> int | None:
    """How many frames other readers see: fewer than there are, if the header was never finished."""
    try:
        return int(soundfile.info(path).frames)
    except (OSError, soundfile.SoundFileError):
        return None
