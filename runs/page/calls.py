"""A call as the page of a run shows it: a row of the list, and a timeline of two lanes with what happens in them."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from personaplex.compare.document import words_of
from personaplex.core.audio.power import window_peaks
from personaplex.core.errors import InputError, PersonaplexError
from personaplex.core.measures.events import Event, Kind
from personaplex.core.measures.figures import figures
from personaplex.core.measures.rows import Call, event_document
from personaplex.runs.measures.answers import Answer
from personaplex.runs.measures.calls import measure_call, persona, read_call, role_name
from personaplex.runs.measures.conversations import Conversation
from personaplex.runs.measures.ears import ENERGY
from personaplex.runs.measures.recordings import Recording, Recordings

_UNSHOWN = frozenset({Kind.unit, Kind.turn, Kind.pause, Kind.transfer, Kind.takeover})
_LOUDEST = 255  # of a peak, as a byte


@dataclass(frozen=True)
class Lane:
    """A side of a call: its sound, or why there is none; `late` is how many seconds that lags behind the page's time.

    `words` are those of the side, in the page's time: text, start and end.
    """

    name: str
    sound: Recording | None
    missing: str
    late: float
    words: list[tuple[str, float, float]]


@dataclass(frozen=True)
class Shown:
    """A call: what the list and the timeline have of it but for its sound, and its lanes."""

    row: dict[str, Any]
    detail: dict[str, Any]
    lanes: list[Lane]


def show_call(name: str, transcript: Path, recordings: Recordings, measured: Call | None) -> Shown:
    """A call of a run, measured now unless it is `measured` already; raises InputError for one without an answer."""
    found = read_call(transcript)
    if isinstance(found, Answer):
        lanes, duration = _lanes_of_answer(found, recordings), found.input.duration
    else:
        lanes, duration = _lanes_of_talk(found), found.duration
    call, unmeasured = measured, ""
    if call is None or call.made.pcm_sha256 != found.pcm_sha256:
        call, unmeasured = _measured(name, found, recordings)
    document = found.document
    flags = _flags(document, lanes[-1].late)
    row = {
        "id": name,
        "duration": round(duration, 2),
        "flags": sorted({flag["kind"] for flag in flags}),
        **_persona(found),
        "figures": {} if call is None else _values(call),
    }
    detail = {
        "duration": duration,
        "unmeasured": unmeasured,
        "warnings": document.get("warnings", []),
        "flags": flags,
        "units": {lane.name: _units(call, lane.name) for lane in lanes},
        "events": [] if call is None else [event_document(event) for event in call.measured.events if _is_shown(event)],
    }
    return Shown(row, detail, lanes)


def failed_row(name: str, why: str) -> dict[str, Any]:
    """The row of a call that has nothing to show."""
    return {
        "id": name,
        "failed": why,
        "duration": None,
        "flags": [],
        "voice": "",
        "role": "",
        "seed": "",
        "figures": {},
    }


def _measured(name: str, found: Answer | Conversation, recordings: Recordings) -> tuple[Call | None, str]:
    """A call's measures, or why there are none."""
    try:
        return measure_call(found, name, recordings, ENERGY), ""
    except PersonaplexError as error:
        return None, error.what


def _persona(found: Answer | Conversation) -> dict[str, str]:
    if isinstance(found, Answer):
        return {"voice": found.voice, "role": role_name(found.role), "seed": str(found.seed)}
    return persona(found)


def _lanes_of_answer(answer: Answer, recordings: Recordings) -> list[Lane]:
    """The caller, whose time the page takes, and the agent."""
    late = answer.shift
    words = [_word(one, late) for one in words_of(answer.document)]
    try:
        caller = Lane("caller", recordings.caller(answer), "", 0.0, [])
    except InputError as error:
        caller = Lane("caller", None, error.what, 0.0, [])
    return [caller, _made_lane("agent", answer.wav, late, words)]


def _lanes_of_talk(talk: Conversation) -> list[Lane]:
    return [
        _made_lane(
            side.name,
            side.wav,
            0.0,
            [
                _word(word, 0.0)
                for segment in talk.document["segments"]
                if segment["speaker"] == side.name
                for word in segment["words"]
            ],
        )
        for side in talk.speakers
    ]


def _word(word: Mapping[str, Any], late: float) -> tuple[str, float, float]:
    return word["word"], round(word["start"] - late, 2), round(word["end"] - late, 2)


def _made_lane(name: str, wav: Path, late: float, words: list[tuple[str, float, float]]) -> Lane:
    sound = Recording(wav, "mix") if wav.is_file() else None
    return Lane(name, sound, "" if sound else f"{wav}: is not there", late, words)


def peaks(sound: Recording) -> str:
    """The outline of a sound in base64, a byte for each window of 20 ms, 255 where it is loudest; raises InputError."""
    found = window_peaks(sound.path, channel=sound.channel, offset=sound.offset, duration=sound.duration)
    highest = float(found.max(initial=0.0)) or 1.0
    return base64.b64encode(np.rint(found / highest * _LOUDEST).astype(np.uint8).tobytes()).decode()


def _flags(document: Mapping[str, Any], late: float) -> list[dict[str, Any]]:
    """The flags of a call, or of a conversation and its sides, in the page's time."""
    sides = document.get("sides", {}).items()
    found = [*((flag, "") for flag in document.get("flags") or ())]
    found += [(flag, name) for name, side in sides for flag in side.get("flags") or ()]
    return [
        {
            "kind": flag["kind"],
            "start": round(flag["start"] - late, 2),
            "end": round(flag["end"] - late, 2),
            "side": name,
            "detail": flag["detail"],
        }
        for flag, name in found
    ]


def _values(call: Call) -> dict[str, float]:
    return {name: one.value for name, one in figures([call.measured]).items() if one.value is not None}


def _units(call: Call | None, side: str) -> list[tuple[float, float]]:
    return [] if call is None else [(event.start, event.end) for event in call.measured.of(Kind.unit, side)]


def _is_shown(event: Event) -> bool:
    return event.kind not in _UNSHOWN
