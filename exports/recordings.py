"""Where the callers' recordings are: beside the run's source, where the user says, or in the run's own stereo mixes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from personaplex.compare.verdicts import Recorded
from personaplex.core.corpus.recordings import find_recording, source_folders
from personaplex.core.errors import InputError
from personaplex.exports.calls import written_wav
from personaplex.exports.tracks import Track, track_of

_MEND = "name their folder with --callers, or run the batch with --mix"


@dataclass(frozen=True)
class Recordings:
    """The folders to look for recordings in, the first that holds one goes."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any] | None, callers: Path | None) -> "Recordings":
        """By a run's `run.json`, None without one, and the folder that the user names."""
        given = () if callers is None else (callers,)
        return cls((*given, *(source_folders(record) or ()), Path()))

    def find(self, item: Recorded, document: Mapping[str, Any], folder: Path) -> Track:
        """What a call heard: of its recording, or else of the mix in `folder`. Raises InputError if there is neither.

        A recording counts if its content is what the transcript says.
        """
        heard = document["input"]
        source = str(heard.get("path", ""))
        part = heard.get("part") or {}
        found, changed = find_recording((place / source for place in self.folders), heard["sha256"])
        if found is not None:
            channel = str(heard.get("channel", "mix"))
            return track_of(found, channel, float(part.get("offset") or 0), part.get("duration"))
        mix = folder / f"{Path(item.id).name}.mix.wav"
        if mix.is_file():
            return replace(written_wav(mix, document.get("files") or {}), channel="left")
        if changed is not None:
            raise InputError(f"{changed}: is not the recording that the call heard: its content has changed", _MEND)
        raise InputError(f"the caller's recording {source} is not there", _MEND)
