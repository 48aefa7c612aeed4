"""Audacity: both sides' sound, and label tracks of words, turns and flags to import beside it."""

from collections.abc import Iterable
from pathlib import Path

from personaplex.exports.calls import Call
from personaplex.exports.writer import Target, place_sides

_Label = tuple[float, float, str]


class AudacityWriter:
    """`audio/<id>.agent.wav` and `.caller.wav`, with `<id>.words.txt`, `.turns.txt` and `.flags.txt` beside."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def add(self, call: Call) -> None:
        """See `Writer`."""
        folder = place_sides(call, self._target).agent.path.parent
        stem = Path(call.id).name
        words = [(word["start"], word["end"], word["word"]) for word in call.words]
        turns = [(segment["start"], segment["end"], f"agent: {segment['text']}") for segment in call.segments]
        turns += [(segment["start"], segment["end"], f"caller: {segment['text']}") for segment in call.caller_segments]
        if not call.caller_segments:
            turns += [(start, end, "caller") for start, end in call.caller_speech]
        signs = [(flag["start"], flag["end"], f"{flag['kind']}: {flag['detail']}") for flag in call.flags]
        for name, labels in (("words", words), ("turns", turns), ("flags", signs)):
            (folder / f"{stem}.{name}.txt").write_bytes(_track(labels).encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Nothing stands for all calls."""


def _track(labels: Iterable[_Label]) -> str:
    """Lines of start, end and label, parted by tabs."""
    return "".join(f"{start:.6f}\t{end:.6f}\t{' '.join(text.split())}\n" for start, end, text in sorted(labels))
