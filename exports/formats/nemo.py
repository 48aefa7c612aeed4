"""NeMo's manifests: the agent's sound with its text, a row a call and, for recognisers, a row an utterance."""

from personaplex.exports.calls import Call
from personaplex.exports.writer import Row, Target, place_sides, write_lines


class NemoWriter:
    """`manifest.jsonl`, a row a call, and `segments.jsonl`, a row for each of the agent's segments.

    `audio_filepath` is the agent's, `caller_filepath` the caller's, both relative to the manifest, as NeMo reads them.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._calls: list[Row] = []
        self._segments: list[Row] = []

    def add(self, call: Call) -> None:
        """See `Writer`."""
        sides = place_sides(call, self._target)
        agent, caller = (self._target.relative(side.path) for side in (sides.agent, sides.caller))
        facts = call.facts
        own = {"audio_filepath": agent, "duration": sides.agent.duration, "text": facts.pop("text")}
        self._calls.append({**own, "caller_filepath": caller, **{key: facts[key] for key in facts if key not in own}})
        self._segments += [
            {
                "audio_filepath": agent,
                "offset": segment["start"],
                "duration": round(min(segment["end"], sides.agent.duration) - segment["start"], 6),
                "text": segment["text"],
                "id": f"{call.id}-{number}",
            }
            for number, segment in enumerate(call.segments)
            if min(segment["end"], sides.agent.duration) > segment["start"]
        ]

    def close(self) -> None:
        """See `Writer`."""
        write_lines(self._target.folder / "manifest.jsonl", self._calls)
        write_lines(self._target.folder / "segments.jsonl", self._segments)
