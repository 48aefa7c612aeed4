"""Lhotse: recordings, supervisions and cuts of the caller with the agent as `target_audio`; and its Shar archives.

A cut is what NeMo trains duplex models on: the caller's sound is the recording, the agent's the target, and the
supervisions say in which of them somebody speaks when.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from personaplex.core.answers.transcript import LANGUAGE
from personaplex.exports.calls import Call, Segments
from personaplex.exports.tars import SHARD_CALLS, Shards
from personaplex.exports.tracks import placed
from personaplex.exports.writer import Row, Sides, Target, place_sides, write_lines

AGENT, CALLER = "agent", "user"
"""Names of speakers: those that NeMo's duplex data sets know."""

_DIGITS = 6


class LhotseWriter:
    """`recordings.jsonl.gz`, `supervisions.jsonl.gz` and `cuts.jsonl.gz`, with the sound in `audio`.

    Sources are absolute paths, since Lhotse moves the recordings of cuts alone to another folder, not their targets.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._recordings: list[Row] = []
        self._supervisions: list[Row] = []
        self._cuts: list[Row] = []

    def add(self, call: Call) -> None:
        """See `Writer`."""
        sides = place_sides(call, self._target)
        agent, caller = _recordings(call, sides, {side: self._source(sides, side) for side in ("agent", "caller")})
        self._recordings += [caller, agent]
        self._supervisions += [*_spoken(call, agent), *_heard(call, caller)]
        self._cuts.append(_cut(call, agent, caller))

    def _source(self, sides: Sides, side: str) -> Row:
        path = self._target.at_last(getattr(sides, side).path)
        return {"type": "file", "channels": [0], "source": path}

    def close(self) -> None:
        """See `Writer`."""
        for name in ("recordings", "supervisions", "cuts"):
            write_lines(self._target.folder / f"{name}.jsonl.gz", getattr(self, f"_{name}"))


class SharWriter:
    """Shar: `cuts.000000.jsonl.gz` with `recording.000000.tar` and `target_audio.000000.tar` beside it, and so on."""

    def __init__(self, target: Target) -> None:
        self._folder = target.folder
        self._tars = {name: Shards(target.folder, f"{name}.%06d.tar") for name in ("recording", "target_audio")}
        self._cuts: list[Row] = []

    def add(self, call: Call) -> None:
        """See `Writer`."""
        found = {side: track.content() for side, track in (("agent", call.agent), ("caller", call.caller))}
        sides = Sides(*(placed(getattr(call, side).path, content) for side, (_, content) in found.items()))
        empty = {"type": "shar", "channels": [0], "source": ""}
        agent, caller = _recordings(call, sides, {"agent": empty, "caller": empty})
        for name, side, recording in (("recording", "caller", caller), ("target_audio", "agent", agent)):
            suffix, content = found[side]
            manifest = json.dumps(recording, ensure_ascii=False) + "\n"
            self._tars[name].add({f"{call.id}{suffix}": content, f"{call.id}.json": manifest.encode()})
        self._cuts.append(_cut(call, agent, caller))

    def close(self) -> None:
        """See `Writer`."""
        for tars in self._tars.values():
            tars.close()
        for shard, start in enumerate(range(0, len(self._cuts), SHARD_CALLS)):
            write_lines(self._folder / f"cuts.{shard:06d}.jsonl.gz", self._cuts[start : start + SHARD_CALLS])


def _recordings(call: Call, sides: Sides, sources: dict[str, Row]) -> tuple[Row, Row]:
    """The agent's and the caller's recording."""
    agent, caller = (
        {
            "id": f"{call.id}-{side}",
            "sources": [sources[side]],
            "sampling_rate": sound.sample_rate,
            "num_samples": sound.frames,
            "duration": sound.duration,
            "channel_ids": [0],
        }
        for side, sound in (("agent", sides.agent), ("caller", sides.caller))
    )
    return agent, caller


def _cut(call: Call, agent: Row, caller: Row) -> Row:
    """The caller's recording as a cut. All supervisions are of it, as Lhotse wants those of a cut to be."""
    spoken = [{**one, "recording_id": caller["id"]} for one in _spoken(call, agent)]
    supervisions = sorted([*spoken, *_heard(call, caller)], key=lambda one: (one["start"], one["id"]))
    facts = {key: value for key, value in call.facts.items() if key not in ("id", "duration")}
    return {
        "id": call.id,
        "start": 0.0,
        "duration": caller["duration"],
        "channel": 0,
        "supervisions": [one for one in supervisions if one["start"] < caller["duration"]],
        "recording": caller,
        "custom": {"target_audio": agent, **facts},
        "type": "MonoCut",
    }


def _spoken(call: Call, agent: Row) -> list[Row]:
    """A supervision for each of the agent's segments, with its words' times."""
    return _worded(f"{call.id}-agent", agent, call.segments, AGENT)


def _heard(call: Call, caller: Row) -> list[Row]:
    """A supervision for each of the caller's segments or, where the words aren't known, stretches of speech."""
    if call.caller_segments:
        return _worded(f"{call.id}-caller", caller, call.caller_segments, CALLER)
    return [
        _supervision(f"{call.id}-caller-{number}", caller, start, end, CALLER)
        for number, (start, end) in enumerate(call.caller_speech)
        if start < min(end, caller["duration"])
    ]


def _worded(name: str, recording: Row, segments: Segments, speaker: str) -> list[Row]:
    return [
        {
            **_supervision(f"{name}-{number}", recording, segment["start"], segment["end"], speaker),
            "text": segment["text"],
            **_alignment(segment["words"], recording["duration"]),
        }
        for number, segment in enumerate(segments)
        if segment["start"] < min(segment["end"], recording["duration"])
    ]


def _alignment(words: Sequence[Mapping[str, Any]], end: float) -> Row:
    """The times of a segment's words; those of a script are not known."""
    times = ((word, min(word["end"], end) - word["start"]) for word in words)
    aligned = [[word["word"], word["start"], max(0.0, round(lasts, _DIGITS)), None] for word, lasts in times]
    return {"alignment": {"word": aligned}} if aligned else {}


def _supervision(name: str, recording: Row, start: float, end: float, speaker: str) -> Row:
    """One of a recording, which it ends with at the latest: the last frame of a call may be one in part."""
    return {
        "id": name,
        "recording_id": recording["id"],
        "start": start,
        "duration": round(min(end, recording["duration"]) - start, _DIGITS),
        "channel": 0,
        "language": LANGUAGE,
        "speaker": speaker,
    }
