"""Full-Duplex-Bench: samples' folders with `input.wav`, `output.wav`, `output.json` and the annotations, to be scored.

`output.json` is what the benchmark's recogniser would write: `text`, and `chunks` with a word and its times each.
Here it is the model's own text stream, so it says what the model meant to say, not what a recogniser hears.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from personaplex.core.corpus.bench import INPUT, KEY
from personaplex.core.corpus.naming import id_fault
from personaplex.core.errors import InputError
from personaplex.exports.calls import Call
from personaplex.exports.tracks import place
from personaplex.exports.writer import Target

_INTERRUPT = "interrupt.json"
_WAV = (".wav",)


class FullDuplexBenchWriter:
    """`<task>/<sample>/` as in the run's source; of a sample that was run in several ways, each way has a folder."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def add(self, call: Call) -> None:
        """See `Writer`."""
        sample = call.own.get(KEY)
        folder, name, files = _place(call, sample if isinstance(sample, dict) else {})
        fault = id_fault(folder)
        if fault is not None:
            raise InputError(f"the sample's folder: {fault[0]}", fault[1])
        path = self._target.folder / folder
        answer = name.replace("input", "output", 1)
        if (path / answer).exists():
            raise InputError(f"another call has the sample's folder {folder} already")
        made = []
        try:
            for stem, track in ((name, call.caller), (answer, call.agent)):
                placed = place(track, path / stem.removesuffix(".wav"), link=self._target.link, suffixes=_WAV)
                made.append(placed.path)
        except InputError:
            for one in made:
                one.unlink()
            raise
        for file, content in files.items():
            _write_json(path / Path(file).name, content)
        since = _interrupted(files)
        words = [word for word in call.words if word["start"] >= since]
        chunks = [{"text": word["word"], "timestamp": [word["start"], word["end"]]} for word in words]
        text = " ".join(word["word"] for word in words)
        _write_json(path / answer.replace(".wav", ".json"), {"text": text, "chunks": chunks})

    def close(self) -> None:
        """Nothing stands for all samples."""


def _place(call: Call, sample: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """The folder, the input's name and the annotations of a call; of one from elsewhere the folder is its id."""
    folder, name, files = sample.get("folder"), sample.get("input"), sample.get("files")
    if not isinstance(folder, str) or not isinstance(name, str) or not isinstance(files, dict):
        return call.id, INPUT, {}
    base = folder + (".clean" if name != INPUT else "")
    variant = call.id.removeprefix(base).strip(".") if call.id.startswith(f"{base}.") else ""
    return f"{variant}/{folder}" if variant else folder, Path(name).name, files


def _interrupted(files: Mapping[str, Any]) -> float:
    """When the caller's interruption ends, 0 without one: the benchmark hears what is said from then on alone."""
    try:
        return float(files[_INTERRUPT][0]["timestamp"][1])
    except (KeyError, IndexError, TypeError, ValueError):
        return 0.0


def _write_json(path: Path, content: Any) -> None:
    path.write_bytes((json.dumps(content, indent=4, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))
