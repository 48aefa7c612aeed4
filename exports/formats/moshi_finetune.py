"""What `moshi-finetune` trains on: stereo WAVs, the agent left and the caller right, with the agent's words beside."""

import json

from personaplex.exports.calls import Call
from personaplex.exports.tracks import stereo, wav
from personaplex.exports.writer import Row, Target, write_lines

SPEAKER = "SPEAKER_MAIN"
"""The speaker on the left, whose words become the text stream."""


class MoshiFinetuneWriter:
    """`data.jsonl` and, relative to it, `data_stereo/<id>.wav`, 24 kHz, with `<id>.json`."""

    def __init__(self, target: Target) -> None:
        self._folder = target.folder
        self._rows: list[Row] = []

    def add(self, call: Call) -> None:
        """See `Writer`."""
        samples, rate = stereo(call.agent, call.caller)
        path = self._folder / "data_stereo" / f"{call.id}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav(samples, rate))
        # Sorted by their starts: the trainer searches them by halves.
        words = sorted(call.words, key=lambda word: float(word["start"]))
        alignments = [[word["word"], [word["start"], word["end"]], SPEAKER] for word in words]
        document = json.dumps({"alignments": alignments}, ensure_ascii=False, allow_nan=False)
        path.with_name(f"{path.stem}.json").write_bytes(document.encode("utf-8", "backslashreplace"))
        self._rows.append({"path": path.relative_to(self._folder).as_posix(), "duration": len(samples) / rate})

    def close(self) -> None:
        """See `Writer`."""
        write_lines(self._folder / "data.jsonl", self._rows)
