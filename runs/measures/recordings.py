"""Where the callers' recordings of a run lie: its transcripts name them as the user did."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.corpus.raw import STDIN
from personaplex.core.corpus.recordings import find_recording, folder_of, source_folders
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
        said = answer.input
        found, changed = find_recording(self._places(said.path, answer), said.sha256)
        if found is not None:
            return Recording(found, said.channel, said.offset, said.part_duration)
        if answer.mix is not None:
            return Recording(answer.mix, "left")
        if changed is not None:
            raise InputError(f"{changed}: is not the recording that the call was made of any more", _MEND)
        raise InputError(f"{said.path}: the caller's recording is not there", _MEND)

    def _places(self, name: str, answer: Answer) -> Iterator[Path]:
        """The files of that name; the agent's WAV, which often has it, is none."""
        for base in dict.fromkeys((*self._bases, answer.folder)):
            path = base / name
            if not (path.is_file() and answer.wav.is_file() and path.samefile(answer.wav)):
                yield path


def _source_folders(run: Path) -> Iterator[Path]:
    """The folders that a batch's paths may be relative to, by its `run.json`; none without one."""
    record = read_object(run / RUN) or {}
    known = source_folders(record)
    if known is None:
        return
    yield known[0]
    if record["source"] != STDIN:
        yield folder_of(Path(record["source"]))  # of a run that was moved with its calls
