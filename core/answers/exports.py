"""The formats beside the JSON: subtitles, time-marked words, a Praat annotation, the reference's list of frames."""

import html
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from personaplex.core.answers.cues import Cue, cues
from personaplex.core.answers.transcript import Segment
from personaplex.core.config import EPAD, PAD, seconds
from personaplex.core.errors import UsageError
from personaplex.core.lm.tokenizer import SPACE, Tokenizer

JSON = "json"


@dataclass(frozen=True)
class Transcript:
    """What a format is written from: a call's segments and what each of its frames says (`frame_texts`)."""

    id: str
    segments: Sequence[Segment]
    frames: Sequence[str]


@dataclass(frozen=True)
class Exporter:
    """One format: the suffix of its files and the text of one."""

    suffix: str
    render: Callable[[Transcript], str]


def frame_texts(text_tokens: Sequence[int] | NDArray[np.integer[Any]], tokenizer: Tokenizer) -> list[str]:
    """What each frame of a text stream `[F]` says: "PAD", "EPAD", or its piece with a space for `▁`."""
    names = {PAD: "PAD", EPAD: "EPAD"}
    tokens = [int(token) for token in text_tokens]
    return [names.get(token) or tokenizer.piece(token).replace(SPACE, " ") for token in tokens]


def srt(transcript: Transcript) -> str:
    """SubRip: numbered cues."""
    return "\n".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_joined(cue)}\n"
        for number, cue in enumerate(cues(transcript.segments), start=1)
    )


def vtt(transcript: Transcript) -> str:
    """WebVTT: cues with their speaker as the voice."""
    blocks = (
        f"\n{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n"
        f"<v {cue.speaker.capitalize()}>{html.escape(_joined(cue), quote=False)}\n"
        for cue in cues(transcript.segments)
    )
    return "WEBVTT\n" + "".join(blocks)


def _joined(cue: Cue) -> str:
    return "\n".join(cue.lines)


def _clock(time: float, point: str) -> str:
    minutes, milliseconds = divmod(round(1000 * time), 60_000)
    whole, thousandths = divmod(milliseconds, 1000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{whole:02}{point}{thousandths:03}"


def ctm(transcript: Transcript) -> str:
    """NIST CTM: a line for each word, `id channel start duration word`, times in seconds."""
    name = _field(transcript.id)
    return "".join(
        f"{name} 1 {word.start:.2f} {word.end - word.start:.2f} {_field(word.word)}\n"
        for segment in transcript.segments
        for word in segment.words
    )


def _field(text: str) -> str:
    """`text` as one field of a line whose fields are parted by spaces."""
    return "_".join(text.split())


def textgrid(transcript: Transcript) -> str:
    """Praat's long text format: an interval tier of words and one of segments, gaps filled with empty intervals."""
    end = seconds(len(transcript.frames))
    tiers = {
        "words": [(word.start, word.end, word.word) for segment in transcript.segments for word in segment.words],
        "segments": [(segment.start, segment.end, segment.text) for segment in transcript.segments],
    }
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", *_bounds(0, end)]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, labels) in enumerate(tiers.items(), start=1):
        intervals = list(_filled(labels, end))
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"']
        lines += _bounds(8, end)
        lines += [f"        intervals: size = {len(intervals)}"]
        for place, (start, stop, label) in enumerate(intervals, start=1):
            quoted = label.replace('"', '""')
            lines += [f"        intervals [{place}]:", *_bounds(12, stop, start), f'            text = "{quoted}"']
    return "\n".join(lines) + "\n"


def _bounds(indent: int, end: float, start: float = 0.0) -> list[str]:
    return [f"{' ' * indent}xmin = {start:.2f}", f"{' ' * indent}xmax = {end:.2f}"]


def _filled(labels: Iterable[tuple[float, float, str]], end: float) -> Iterable[tuple[float, float, str]]:
    """The labels in order, with empty ones in between so that they cover 0 to `end` seconds."""
    reached = 0.0
    for start, stop, label in labels:
        if start > reached:
            yield reached, start, ""
        yield start, stop, label
        reached = stop
    if end > reached:
        yield reached, end, ""


def frames(transcript: Transcript) -> str:
    """The reference's flat list: JSON, one string a frame."""
    return json.dumps(list(transcript.frames), ensure_ascii=False) + "\n"


EXPORTERS: dict[str, Exporter] = {
    "srt": Exporter(".srt", srt),
    "vtt": Exporter(".vtt", vtt),
    "ctm": Exporter(".ctm", ctm),
    "textgrid": Exporter(".TextGrid", textgrid),
    "frames": Exporter(".frames.json", frames),
}


def parse_formats(text: str) -> tuple[str, ...]:
    """The format names in a comma-separated list, each once, in its order; a `UsageError` lists the known ones."""
    known = (JSON, *EXPORTERS)
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f'--format: "{name}" is not a format', f"choose from {','.join(known)}")
    return tuple(dict.fromkeys(names))
