"""A folder of results, as batch or talk leaves it, read as calls."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from personaplex.compare.document import answer
from personaplex.compare.recorded import read_run
from personaplex.compare.verdicts import Recorded
from personaplex.core.corpus.results import RUN, read_results
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.files import read_object
from personaplex.exports.calls import Call, LeftOut, MadeWith, RunCalls, caller_of, own_keys, written_wav
from personaplex.exports.conversations import is_of_conversations, read_conversations
from personaplex.exports.recordings import Recordings

_MEND = "name a folder that `personaplex batch` or `personaplex talk` wrote to"


class _Turn(BaseModel):
    """A caller's turn, as `personaplex callers` labels it, in seconds."""

    model_config = ConfigDict(allow_inf_nan=False)

    start: float
    end: float
    text: str


_TURNS = TypeAdapter(list[_Turn])


def read_calls(run: Path, callers: Path | None) -> RunCalls:
    """The calls in a folder of results; `callers` is where the callers' recordings lie now, if they were moved.

    Raises UsageError for what is no run, and for a transcript that is broken.
    """
    if not run.is_dir():
        raise UsageError(f"{run}: {'not a folder' if os.path.lexists(run) else 'there is no such folder'}", _MEND)
    rows, record = read_results(run), read_object(run / RUN)
    if is_of_conversations(record):
        return read_conversations(run, rows)
    recorded = read_run(run)
    if not recorded:
        raise UsageError(f"{run}: holds no transcripts", _MEND)
    places, found = Recordings.of(record, callers), RunCalls()
    for item in recorded.values():
        if item.document is None:
            found.failed.append(LeftOut(item.id, item.failure or "it failed"))
            continue
        try:
            found.calls.append(_call(item, run, own_keys(rows.get(item.id, {})), places))
        except PersonaplexError as error:
            found.left_out.append(LeftOut(item.id, error.what))
    return found


def _turns(own: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The caller's turns, if the recording was made from a script and heard from its beginning; see `callers`."""
    if (document["input"].get("part") or {}).get("offset"):
        return []
    try:
        return [{**turn.model_dump(), "words": []} for turn in _TURNS.validate_python(own.get("turns"))]
    except ValidationError:  # a key of the user's own
        return []


def _call(item: Recorded, run: Path, own: Mapping[str, Any], places: Recordings) -> Call:
    """Raises InputError for a call that lacks a side's sound."""
    document = answer(item)
    folder = (run / item.id).parent
    activity = document.get("activity") or {}
    return Call(
        id=item.id,
        duration=document["input"]["duration"],
        agent=written_wav(folder / Path(document["output"]["path"]).name, document.get("files") or {}),
        caller=places.find(item, document, folder),
        segments=document["segments"],
        caller_segments=_turns(own, document),
        caller_speech=[(start, end) for start, end in activity.get("caller", [])],
        flags=document.get("flags") or [],
        made_with=MadeWith(
            voice=document["prompt"].get("voice", ""),
            prompt=document["prompt"]["text"],
            seed=str(document["sampling"].get("seed", "")),  # up to 64 bits, which few readers hold exactly
            model=document["model"]["name"],
            revision=document["model"].get("revision", ""),
            weights_sha256=document["model"]["weights_sha256"],
            align=document["output"].get("align", ""),
        ),
        own=own,
        group=caller_of(own) or document["input"]["sha256"],
    )
