"""WebDataset: tar shards with the members `KEY.agent.wav`, `KEY.caller.wav` and `KEY.json` of each call."""

import json

from personaplex.exports.calls import Call
from personaplex.exports.tars import Shards
from personaplex.exports.writer import Target

_WAV = (".wav",)  # so that all samples have the same members


class WebdatasetWriter:
    """`calls-000000.tar` and so on. A key is the call's id with `_` for every dot, at which readers would cut it."""

    def __init__(self, target: Target) -> None:
        self._tars = Shards(target.folder, "calls-%06d.tar")
        self._keys: set[str] = set()

    def add(self, call: Call) -> None:
        """See `Writer`."""
        sides = {"agent": call.agent.content(_WAV), "caller": call.caller.content(_WAV)}
        key = self._key(call.id)
        facts = {
            **call.facts,
            "segments": call.segments,
            "caller_segments": call.caller_segments,
            "caller_speech": call.caller_speech,
            "own": call.own,
        }
        members = {f"{key}.{side}{suffix}": content for side, (suffix, content) in sides.items()}
        record = json.dumps(facts, ensure_ascii=False, allow_nan=False)
        self._tars.add({**members, f"{key}.json": record.encode("utf-8", "backslashreplace")})

    def _key(self, name: str) -> str:
        key = plain = name.replace(".", "_")
        number = 2
        while key in self._keys:
            key, number = f"{plain}_{number}", number + 1
        self._keys.add(key)
        return key

    def close(self) -> None:
        """See `Writer`."""
        self._tars.close()
