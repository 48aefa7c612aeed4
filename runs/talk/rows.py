"""The rows of `results.jsonl` and the `run.json` of conversations."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from personaplex.core.answers.conversation import SPEAKERS
from personaplex.core.answers.outputs import Run
from personaplex.core.corpus.conversations import Listed
from personaplex.core.corpus.results import TALK_SCHEMA, ResultRow, apart, write_run
from personaplex.runs.settings import model_settings
from personaplex.runs.talk.request import TalkRequest


def talk_row(listed: Listed, document: Mapping[str, Any]) -> ResultRow:
    """The row of a conversation with a transcript; the manifest's other keys come first."""
    folder, sides, output = os.path.dirname(listed.id), document["sides"], document["output"]

    def of_each(*path: str) -> dict[str, Any]:
        found = {}
        for speaker in SPEAKERS:
            value = sides[speaker]
            for key in path:
                value = value[key]
            found[speaker] = value
        return found

    kinds = {flag["kind"] for flag in document["flags"]}
    kinds |= {flag["kind"] for speaker in SPEAKERS for flag in sides[speaker]["flags"]}
    return {
        **apart(listed.row.passed_through),
        "id": listed.id,
        "status": "done",
        "output": os.path.join(folder, output["path"]),
        "sides": {speaker: os.path.join(folder, sides[speaker]["output"]["path"]) for speaker in SPEAKERS},
        "transcript": f"{listed.id}.json",
        "text": of_each("text"),
        "duration": document["duration"],
        "end": document["end"],
        "voice": of_each("prompt", "voice"),
        "seed": of_each("sampling", "seed"),
        "tokens_sha256": of_each("tokens_sha256"),
        "pcm_sha256": output["pcm_sha256"],
        "files": document["files"],
        "flags": sorted(kinds),
        "warnings": document["warnings"],
    }


def write_talk_record(request: TalkRequest, run: Run, started: str) -> None:
    """Write what it takes to repeat the run; raises InputError."""
    settings = {
        "source": request.source,
        "repeat": request.repeat,
        "seconds": request.seconds,
        "voice_prompt": request.voice,
        "voice_prompt_dir": None if request.voice_folder is None else str(request.voice_folder),
        "seed": request.seed,
        "end_silence": request.end_silence,
        "ends_with_goodbye": request.ends_with_goodbye,
        "sampling": asdict(request.sampling),
        "output": asdict(request.outputs),
        "model": asdict(run.model),
        "model_options": asdict(model_settings(request.model)),
        "engine": asdict(run.engine),
    }
    volatile = {"started": started, "command": request.command, "folder": str(Path.cwd()), "shard": request.shard}
    write_run(request.output, settings, volatile, TALK_SCHEMA)
