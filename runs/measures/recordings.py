"""Where the callers' recordings of a run lie: its transcripts name them as the user did."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.audio.reading import sha256
from personaplex.core.corpus.raw import STDIN
from personaplex.core.corpus.results import RUN
from personaplex.core.errors import InputError
from personaplex.core.files import read_object
from personaplex.runs.measures.answers import Answer

_MEND = "bring it back, name the folder that holds it with --recordings, or run the batch with --mix"


@dataclass(frozen=True)
class Recording:
    """The caller's side of a call: a channel of a part of a file, as `core.audio.reading.read` takes it."""

    path: Path
    channel: str
    offset: float = 0.0
    duration: float | None = None


class Recordings:
    """Looks up recordings: below `folder` if one is given, where the run took them from, and here."""

    def __init__(self, run: Path, folder: Path | None) -> None:
        self._bases = [*([folder] if folder else ()), *_source_folders(run), Path()]

    def caller(self, answer: Answer) -> Recording:
        """The caller's recording of an answer, or else the left of their stereo mix.

        A recording counts only if it is the one that the call was made of, by its hash. Raises InputError where there
        is neither.
        """
        said, changed = answer.input, None
        for path in self._places(said.path, answer):
            if sha256(path) == said.sha256:
                return Recording(path, said.channel, said.offset, said.part_duration)
            changed = path
        if answer.mix is not None:
            return Recording(answer.mix, "left")
        if changed is not None:
            raise InputError(f"{changed}: is not the recording that the call was made of any more", _MEND)
        raise InputError(f"{said.path}: the caller's recording is not there", _MEND)

    def _places(self, name: str, answer: Answer) -> Iterator[Path]:
        """The files of that name; the agent's WAV, which often has it, is none."""
        for base in dict.fromkeys((*self._bases, answer.folder)):
            path = base / name
            if os.path.isfile(path) and not (answer.wav.is_file() and path.samefile(answer.wav)):
                yield path


def _source_folders(run: Path) -> Iterator[Path]:
    """The folders that a batch's paths may be relative to, by its `run.json`; none without one."""
    record = read_object(run / RUN) or {}
    source, volatile = record.get("source"), record.get("volatile")
    started = volatile.get("folder") if isinstance(volatile, dict) else None
    if not isinstance(source, str) or not isinstance(started, str):
        return
    named = Path(started) / source
    yield Path(started) if source == STDIN else named if named.is_dir() else named.parent
    if source != STDIN:
        yield Path(source) if Path(source).is_dir() else Path(source).parent  # of a run that was moved with its calls
