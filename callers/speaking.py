"""Text to speech by a synthesiser that is installed: espeak-ng, flite, or any command. Each text is spoken once."""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from personaplex.core.audio import reading
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import replacing
from personaplex.core.weights.hub import cache_folder

KNOWN = {
    "espeak-ng": "espeak-ng -v {voice} -f {text} -w {wav}",
    "flite": "flite -voice {voice} -f {text} -o {wav}",
}
VOICES = {"espeak-ng": "en-us", "flite": "slt"}  # where a script names none
MOST_SECONDS = 120  # that a synthesiser may take for a turn

_QUIET = 1e-3  # of full scale: what lies below it around a turn is no part of it


@dataclass(frozen=True)
class Synthesiser:
    """A command with the places {text}, {wav} and {voice}: it reads a UTF-8 file and writes a WAV. No shell sees it."""

    words: tuple[str, ...]
    voice: str

    @cached_property
    def version(self) -> str:
        """What the program says of its version: another one may speak otherwise."""
        try:
            told = subprocess.run([self.words[0], "--version"], capture_output=True, timeout=10, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return told.stdout.decode(errors="replace").strip()

    def say(self, text: str, voice: str | None) -> reading.Samples:
        """A text's samples [N] at 24 kHz, without the silence around it, from the cache or spoken now.

        Raises InputError where the synthesiser fails or says nothing.
        """
        voice = voice or self.voice
        key = "\0".join([*self.words, self.version, voice, text])
        path = cache_folder() / "callers" / f"{hashlib.sha256(key.encode()).hexdigest()}.wav"
        if not path.is_file():
            self._speak(text, voice, path)
        return _trimmed(reading.read(path).samples, text)

    def _speak(self, text: str, voice: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            written, spoken = Path(folder, "text.txt"), Path(folder, "spoken.wav")
            written.write_text(text, encoding="utf-8")
            places = {"text": str(written), "wav": str(spoken), "voice": voice}
            command = [word.format(**places) for word in self.words]
            mend = "run that command by hand to see why, or choose another --synthesiser or voice"
            try:
                done = subprocess.run(command, capture_output=True, timeout=MOST_SECONDS, check=False)  # noqa: S603
            except (OSError, subprocess.TimeoutExpired) as error:
                raise InputError(f'"{shlex.join(command)}" failed: {error}', mend) from error
            if done.returncode or not spoken.is_file():
                said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
                reason = said[-1] if said else f"exit code {done.returncode}, and no WAV"
                raise InputError(f'"{shlex.join(command)}" failed: {reason}', mend)
            with replacing(path) as part:
                shutil.copyfile(spoken, part)


def _trimmed(samples: reading.Samples, text: str) -> reading.Samples:
    loud = np.flatnonzero(np.abs(samples) > _QUIET)
    if not len(loud):
        raise InputError(f'the synthesiser says nothing for "{text}"', "choose other words, or another voice")
    return samples[loud[0] : loud[-1] + 1]


def synthesiser(name: str, voice: str | None) -> Synthesiser:
    """The one called `name` (auto: the first of `KNOWN` that is installed), or that of a command.

    Raises UsageError for one that isn't installed, and for a command without {text} and {wav}.
    """
    if name == "auto":
        name = next((known for known in KNOWN if shutil.which(known)), "")
        if not name:
            mend = "install one, such as Debian's espeak-ng, or give a command with --synthesiser"
            raise UsageError(f"no synthesiser is installed: neither {' nor '.join(KNOWN)}", mend)
    words = _split(KNOWN.get(name, name))
    if not words or shutil.which(words[0]) is None:
        raise UsageError(
            f'--synthesiser: "{words[0] if words else ""}" is not installed', "install it, or choose another"
        )
    missing = [place for place in ("{text}", "{wav}") if not any(place in word for word in words)]
    if missing:
        mend = 'write it such as "mytts --text-file {text} --out {wav} --voice {voice}"'
        raise UsageError(f"--synthesiser: the command lacks {' and '.join(missing)}", mend)
    try:
        [word.format(text="", wav="", voice="") for word in words]
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(f"--synthesiser: {error} is no place in a command", "use {text}, {wav} and {voice}") from error
    return Synthesiser(tuple(words), voice or VOICES.get(name, "default"))


def _split(command: str) -> Sequence[str]:
    try:
        return shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise UsageError(f"--synthesiser: {error}", "mend the quotes") from error


def seconds(samples: int) -> float:
    """A number of samples in seconds, to the millisecond."""
    return round(samples / SAMPLE_RATE, 3)
