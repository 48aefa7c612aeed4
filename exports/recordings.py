"""Where the callers' recordings are: beside the run's source, where the user says, or in the run's own stereo mixes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from personaplex.compare.verdicts import Recorded
from personaplex.core.errors import InputError
from personaplex.core.files import file_sha256
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
        folders = [] if callers is None else [callers]
        volatile = (record or {}).get("volatile")
        base, source = volatile.get("folder") if isinstance(volatile, dict) else None, (record or {}).get("source")
        if isinstance(base, str) and isinstance(source, str):
            place = Path(base, source)
            folders += [place if place.is_dir() else place.parent, Path(base)]
        return cls((*folders, Path()))

    def find(self, item: Recorded, document: Mapping[str, Any], folder: Path) -> Track:
        """What a call heard: of its recording, or else of the mix in `folder`. Raises InputError if there is neither.

        A recording counts if its content is what the transcript says.
        """
        heard = document["input"]
        source = str(heard.get("path", ""))
        part = heard.get("part") or {}
        seen = None
        for place in self.folders:
            path = place / source
            if os.path.isfile(path):
                seen = path
                if file_sha256(path) == heard["sha256"]:
                    channel = str(heard.get("channel", "mix"))
                    return track_of(path, channel, float(part.get("offset") or 0), part.get("duration"))
        mix = folder / f"{Path(item.id).name}.mix.wav"
        if mix.is_file():
            return replace(written_wav(mix, document.get("files") or {}), channel="left")
        if seen is not None:
            raise InputError(f"{seen}: is not the recording that the call heard: its content has changed", _MEND)
        raise InputError(f"the caller's recording {source} is not there", _MEND)
