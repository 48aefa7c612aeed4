"""A comparison as one HTML page that needs nothing else: what differs, where to hear it and what was said."""

from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np

from personaplex.compare.agreement import run_agreement
from personaplex.compare.identity import identity_summary
from personaplex.compare.reports.parts import templates
from personaplex.compare.reports.sound import COLUMNS, HEIGHT, mp3_uri, outline
from personaplex.compare.reports.telling import alike, change, place, plural, run_alike, values
from personaplex.compare.reports.transcripts import ShownWord, side_by_side
from personaplex.compare.verdicts import Comparison, FirstDifference, ItemComparison, Outcome, Recorded, Rung, Status
from personaplex.core.audio.reading import Samples, read
from personaplex.core.config import FRAME_RATE, SAMPLE_RATE
from personaplex.core.errors import InputError
from personaplex.core.files import write_text

_MARKS = {Outcome.same: "=", Outcome.different: "≠", Outcome.unknown: "?"}
_KINDS = ("same", "different", *(status for status in Status if status is not Status.compared))
_STEPS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)  # seconds between an axis's figures
_MOST_FIGURES = 8
_LAST_FIGURE = 0.95  # of the width: one further on has no room
_QUIETEST_SCALE = 0.1  # lest near-silence be drawn as if it were speech


@dataclass(frozen=True)
class _Side:
    """One side of a call: its run, its sound as a data URI and its outline (or why there is none), its words."""

    name: str
    run: str
    audio: str
    outline: str
    silence: str
    words: list[ShownWord]


@dataclass(frozen=True)
class _Mark:
    """The first difference: what is written at it, its second, and how far along the drawing it lies."""

    label: str
    second: float
    percent: float


@dataclass(frozen=True)
class _Call:
    """One item that differs; `seconds` is what the drawings' width stands for, `figures` are seconds along it."""

    item: ItemComparison
    kind: str
    seconds: float
    figures: list[float]
    mark: _Mark | None
    sides: list[_Side]


def write_page(comparison: Comparison, path: Path, limit: int = 50) -> None:
    """Write `comparison` to `path` as HTML, whole or not at all, making its folder; an `InputError` if that fails.

    The first `limit` items that differ are shown with sound and words, those that fail before the others. The same
    comparison of the same files gives the same bytes.
    """
    differing = sorted(filter(_differs, comparison.items), key=lambda item: not item.fails)
    calls = [_call(comparison, item) for item in differing[:limit]]
    kinds = [_kind(item) for item in comparison.items]
    found = run_agreement(comparison)
    page = _template().render(
        comparison=comparison,
        failing=sum(item.fails for item in comparison.items),
        counts=[(kind, kinds.count(kind)) for kind in _KINDS if kind in kinds],
        common=run_alike(found) if found.items else None,
        identity=identity_summary(comparison),
        rungs=list(Rung),
        numbers={call.item.id: number for number, call in enumerate(calls)},
        calls=calls,
        times=[{"seconds": call.seconds, "second": call.mark.second if call.mark else None} for call in calls],
        left_out=len(differing) - len(calls),
        columns=COLUMNS,
        height=HEIGHT,
        frame_rate=FRAME_RATE,
    )
    write_text(path, page.encode(errors="replace").decode())  # a lone surrogate of some id has no UTF-8


def _template() -> jinja2.Template:
    environment = templates(Path(__file__).parent)
    environment.filters.update(alike=alike, kind=_kind, plural=plural, values=values)
    environment.globals["mark"] = _rung_mark
    return environment.get_template("page.html")


def _kind(item: ItemComparison) -> str:
    """How an item is counted: `same` or `different`, or its status where it couldn't be compared."""
    if item.status is not Status.compared:
        return item.status
    return "different" if item.differs else "same"


def _differs(item: ItemComparison) -> bool:
    return item.fails or _kind(item) not in ("same", Status.failed)


def _rung_mark(item: ItemComparison, rung: Rung) -> tuple[str, str]:
    """A sign for how `rung` came out, and what it means."""
    for verdict in item.verdicts:
        if verdict.rung is rung:
            return _MARKS[verdict.outcome], ": ".join(filter(None, (verdict.outcome, verdict.detail)))
    return "–", "not compared"


def _call(comparison: Comparison, item: ItemComparison) -> _Call:
    sounds = [_sound(side) for side in (item.expected, item.got)]
    words = side_by_side(item.expected, item.got, item.difference.second if item.difference else None)
    seconds = _width(sounds, words, item.difference)
    heard = [sound for sound in sounds if not isinstance(sound, str)]
    full_scale = max([_QUIETEST_SCALE, *(float(np.abs(sound).max()) for sound in heard)])
    names = (("expected", comparison.expected), ("got", comparison.got))
    sides = [
        _side(name, run, sound, spoken, seconds, full_scale)
        for (name, run), sound, spoken in zip(names, sounds, words, strict=True)
    ]
    return _Call(item, _kind(item), seconds, _figures(seconds), _mark(item.difference, seconds), sides)


def _sound(side: Recorded | None) -> Samples | str:
    """The 24 kHz samples `[N]` of a side, or why there are none."""
    if side is None:
        return "not in this run"
    if side.failure is not None:
        return f"no audio: {side.failure}"
    if side.audio is None:
        return "no audio"
    try:
        return read(side.audio).samples
    except InputError as error:
        return f"no audio: {error.what}"


def _width(
    sounds: list[Samples | str], words: tuple[list[ShownWord], list[ShownWord]], difference: FirstDifference | None
) -> float:
    """Seconds that hold all there is to draw."""
    lengths = [len(sound) / SAMPLE_RATE for sound in sounds if not isinstance(sound, str)]
    ends = [word.end for side in words for word in side]
    return max([1 / FRAME_RATE, *lengths, *ends, difference.second if difference else 0.0])


def _side(
    name: str, run: str, sound: Samples | str, words: list[ShownWord], seconds: float, full_scale: float
) -> _Side:
    if isinstance(sound, str):
        return _Side(name, run, "", "", sound, words)
    columns = max(1, round(COLUMNS * len(sound) / SAMPLE_RATE / seconds))
    return _Side(name, run, mp3_uri(sound), outline(sound, columns, full_scale), "", words)


def _figures(seconds: float) -> list[float]:
    step = next((step for step in _STEPS if seconds / step <= _MOST_FIGURES), _STEPS[-1])
    return [number * step for number in range(int(_LAST_FIGURE * seconds / step) + 1)]


def _mark(difference: FirstDifference | None, seconds: float) -> _Mark | None:
    if difference is None:
        return None
    label = f"{place(difference)}: {change(difference)}"
    return _Mark(label, difference.second, round(100 * difference.second / seconds, 3))
