"""Measures on the screen: a table of a run's figures, one of each grouping, and one of two runs side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from personaplex.compare.reports.telling import plural
from personaplex.core.measures.bootstrap import Interval, Versus
from personaplex.core.measures.figures import DEFINITIONS, Unit
from personaplex.core.measures.pooled import FEW, Figure
from personaplex.runs.measures.measuring import RunMeasures
from personaplex.runs.measures.summary import grouped

Say: TypeAlias = Callable[[str], None]

MOST_GROUPS = 20
MOST_LETTERS = 40
NONE = "–"

_LABELS = {
    "talk_share": "share of the talk",
    "words_per_minute": "words a minute of speech",
    "units_per_minute": "units of speech a minute",
    "speech_seconds_per_minute": "  seconds a minute",
    "pauses_per_minute": "pauses a minute",
    "pause_seconds_per_minute": "  seconds a minute",
    "gaps_per_minute": "gaps a minute",
    "gap_seconds_per_minute": "  seconds a minute",
    "overlaps_per_minute": "overlaps a minute",
    "overlap_seconds_per_minute": "  seconds a minute",
    "dead_air_per_minute": "dead air a minute",
    "dead_air_seconds_per_minute": "  seconds a minute",
    "transfer_offset_median": "floor transfer, median",
    "transfer_offset_p10": "  10th percentile",
    "transfer_offset_p90": "  90th percentile",
    "response_rate": "turns answered",
    "response_latency_median": "  latency, median",
    "response_latency_p10": "  10th percentile",
    "response_latency_p90": "  90th percentile",
    "takeover_rate": "turns after which it takes the floor",
    "interruptions_per_minute": "interruptions a minute",
    "yield_rate": "gives way when interrupted",
    "yield_latency_median": "  latency, median",
    "backchannels_per_minute": "back-channels a minute",
}
"""How a figure is called on the screen."""

_OF_GROUPS = {
    "response_rate.agent": "answered",
    "response_latency_median.agent": "latency",
    "response_latency_median.a": "latency a",
    "response_latency_median.b": "latency b",
    "takeover_rate.agent": "takes floor",
    "interruptions_per_minute.agent": "interrupts/min",
    "yield_rate.agent": "gives way",
    "gap_seconds_per_minute": "gaps s/min",
    "overlap_seconds_per_minute": "overlap s/min",
    "dead_air_seconds_per_minute": "dead air s/min",
    "talk_share.agent": "talk",
    "talk_share.a": "talk a",
}
"""The figures that groups are told by."""


def show_measures(run: RunMeasures, say: Say) -> None:
    """A run's figures, and those of its groups; `say` shows a line."""
    document = run.document
    told = f"{plural(document['calls'], 'call')} measured, {document['minutes']:.1f} minutes"
    others = ((document["failed"], "failed"), (document["unanswered"], "without an answer"))
    say("; ".join([told, *(f"{count} {what}" for count, what in others if count)]))
    if not run.calls:
        return
    say("")
    found = {name: Figure(one["value"], one["count"]) for name, one in document["figures"].items()}
    sides = list(dict.fromkeys(side for call in run.calls for side in call.measured.sides))
    _show_table(say, ["", "both", *sides], _rows(found, sides))
    say(f"In brackets the events behind a figure; * marks one of fewer than {FEW}.")
    for grouping in grouped(run.calls):
        say("")
        _show_group(say, grouping, document["groups"][grouping])


def _rows(found: Mapping[str, Figure], sides: Sequence[str]) -> Iterator[list[str]]:
    for name in DEFINITIONS:
        figures = [found.get(name), *(found.get(f"{name}.{side}") for side in sides)]
        yield [_LABELS[name], *(_cell(name, figure) for figure in figures)]


def _cell(name: str, figure: Figure | None) -> str:
    """A figure with its count: `0.35 s (24)`, and a star after it if it is of few events."""
    if figure is None:
        return ""
    if figure.value is None:
        return NONE
    return f"{shown(name, figure.value)} ({figure.count:,}){'*' if figure.is_of_few else ' '}"


def shown(name: str, value: float) -> str:
    """A figure's value as its unit has it: `71 %`, `0.35 s`, `4.2`."""
    unit = DEFINITIONS[name.partition(".")[0]].unit
    if unit is Unit.share:
        return f"{100 * value:.0f} %"
    return f"{value:.2f} s" if unit is Unit.seconds else f"{value:.1f}"


def _show_group(say: Say, grouping: str, groups: Mapping[str, Any]) -> None:
    names = [name for name in _OF_GROUPS if any(name in group["figures"] for group in groups.values())]
    rows = []
    for name, group in list(groups.items())[:MOST_GROUPS]:
        figures = (group["figures"].get(one) for one in names)
        cells = [_in_group(one, figure) for one, figure in zip(names, figures, strict=True)]
        label = name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"
        rows.append([label, f"{group['calls']:,}", *cells])
    _show_table(say, [f"by {grouping}", "calls", *(_OF_GROUPS[name] for name in names)], rows)
    if len(groups) > MOST_GROUPS:
        say(f"and {len(groups) - MOST_GROUPS} more; --json has them all")


def _in_group(name: str, figure: Mapping[str, Any] | None) -> str:
    if figure is None or figure["value"] is None:
        return NONE
    return f"{shown(name, figure['value'])}{'*' if figure['few'] else ' '}"


def show_versus(found: Mapping[str, Versus], calls: int, say: Say) -> None:
    """Two runs' figures of the calls that both have, with intervals; what has clearly changed is marked."""
    say("")
    say(f"Measures of the {plural(calls, 'call')} that both runs have measures of, with 95 % intervals:")
    rows = []
    for name, one in found.items():
        if one.expected.value is None and one.got.value is None:
            continue
        change = NONE if one.change is None else f"{'+' if one.change > 0 else ''}{shown(name, one.change)}"
        rows.append(
            [
                f"{name}{' ≠' if one.is_clear else ''}",
                _with_interval(name, one.expected, one.expected_interval),
                _with_interval(name, one.got, one.got_interval),
                f"{change}{_interval(name, one.change_interval)}",
            ]
        )
    _show_table(say, ["", "expected", "got", "change"], rows)
    say(f"≠ the interval of the change leaves out 0; * fewer than {FEW} events in one of the runs.")


def _with_interval(name: str, figure: Figure, interval: Interval) -> str:
    if figure.value is None:
        return NONE
    return f"{shown(name, figure.value)}{_interval(name, interval)}{'*' if figure.is_of_few else ' '}"


def _interval(name: str, interval: Interval) -> str:
    return "" if interval is None else f" [{shown(name, interval[0])}, {shown(name, interval[1])}]"


def _show_table(say: Say, head: Sequence[str], rows: Iterable[list[str]]) -> None:
    table = [list(head), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        say("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
