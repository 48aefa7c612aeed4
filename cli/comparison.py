"""What a comparison tells: a table or JSON on stdout, and the reports that were asked for."""

import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex.cli.console import result
from personaplex.compare.identity import identity_summary
from personaplex.compare.reports.telling import alike, plural, run_alike, values
from personaplex.compare.verdicts import Agreement, Comparison, ItemComparison, Outcome, Rung, Status

if TYPE_CHECKING:
    from personaplex.compare.measures import MeasuresCompared

SCHEMA = "personaplex.comparison/1"
DIFFERENT = 4
MOST_ROWS = 50
MOST_LETTERS = 60

_MARKS = {Outcome.same: "same", Outcome.different: "DIFFERENT", Outcome.unknown: "?"}


@dataclass(frozen=True)
class Reports:
    """Which reports are wanted; `github` None means where GitHub runs us."""

    junit: Path | None
    html: Path | None
    github: bool | None
    as_json: bool

    @property
    def annotates(self) -> bool:
        """Whether GitHub is to be told."""
        return os.environ.get("GITHUB_ACTIONS") == "true" if self.github is None else self.github


def report(comparison: Comparison, reports: Reports) -> int:
    """Tell a comparison in every way that is asked for; returns the exit code.

    Raises InputError for a file that can't be written, after the verdict was told.
    """
    from personaplex.cli.measures import show_versus
    from personaplex.compare.measures import compare_measures

    measures = compare_measures(comparison)
    if reports.annotates:
        from personaplex.compare.reports.annotations import annotations

        for line in annotations(comparison):
            print(line, file=sys.stderr)  # GitHub reads both streams, and stdout may be JSON
    if reports.as_json:
        result(json.dumps(_document(comparison, measures), indent=2, ensure_ascii=False))
    else:
        _show(comparison)
        if measures.calls:
            show_versus(measures.figures, measures.calls, result)
        result("")
        result(_verdict(comparison))
    if reports.junit is not None:
        from personaplex.compare.reports.junit import write_junit

        write_junit(comparison, reports.junit)
    if reports.html is not None:
        from personaplex.compare.reports.page import write_page

        write_page(comparison, reports.html)
    return DIFFERENT if comparison.fails else 0


def _document(comparison: Comparison, measures: "MeasuresCompared") -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "expected": comparison.expected,
        "got": comparison.got,
        "level": comparison.level,
        "tolerances": asdict(comparison.tolerances),
        "same": not comparison.fails,
        "counts": _counts(comparison),
        "identity": [
            {"name": name, "expected": expected, "got": got, "items": count}
            for name, expected, got, count in identity_summary(comparison)
        ],
        "agreement": _run_agreement(comparison),
        "items": [_item(item) for item in comparison.items],
        "measures": {
            "calls": measures.calls,
            "figures": {name: asdict(one) | {"clear": one.is_clear} for name, one in measures.figures.items()},
        },
    }


def _run_agreement(comparison: Comparison) -> dict[str, Any]:
    from personaplex.compare.agreement import run_agreement

    found = run_agreement(comparison)
    return {
        "items": found.items,
        **_agreement(found.agreement),
        "differing": found.differing,
        "located": found.located,
        "median_second": found.median_second,
        "first_second": found.first_second,
        "first_item": found.first_item,
    }


def _agreement(agreement: Agreement) -> dict[str, Any]:
    """The three shares, each with what it is of."""
    return {
        "same_text_token": agreement.text,
        "text_frames": agreement.text_frames,
        "both_speak_or_silent": agreement.speech,
        "speech_frames": agreement.speech_frames,
        "word_error_rate": agreement.word_error_rate,
        "words": agreement.words,
    }


def _item(item: ItemComparison) -> dict[str, Any]:
    verdicts = {v.rung: {"outcome": v.outcome, "detail": v.detail, **v.figures} for v in item.verdicts}
    return {
        "id": item.id,
        "status": item.status,
        "fails": item.fails,
        "summary": item.summary,
        "verdicts": verdicts,
        "agreement": None if item.agreement is None else _agreement(item.agreement),
        "difference": None if item.difference is None else asdict(item.difference),
        "identity": [asdict(difference) for difference in item.identity],
        "expectations": [asdict(expectation) for expectation in item.expectations],
    }


def _counts(comparison: Comparison) -> dict[str, int]:
    statuses = Counter(item.status for item in comparison.items)
    return {
        "items": len(comparison.items),
        "failing": sum(item.fails for item in comparison.items),
        **{status.value: statuses[status] for status in Status},
    }


def _show(comparison: Comparison) -> None:
    _show_identity(comparison)
    shown = [item for item in comparison.items if item.fails or item.differs]
    if shown:
        width = min(MOST_LETTERS, max(len("item"), *(len(item.id) for item in shown[:MOST_ROWS])))
        result("")
        result(f"{'item':<{width}}  " + "  ".join(f"{rung:<9}" for rung in Rung))
        for item in shown[:MOST_ROWS]:
            _show_item(item, width)
        if len(shown) > MOST_ROWS:
            result(f"and {len(shown) - MOST_ROWS} more; --json or --html has them all")
        _show_agreement(comparison)


def _show_identity(comparison: Comparison) -> None:
    differences = identity_summary(comparison)
    if not any(item.status is Status.compared for item in comparison.items):
        result("No item has an answer in both runs.")
        return
    if not differences:
        result("All that answers depend on is the same in both runs: they should be equal, bit for bit.")
        return
    result("The runs can't be expected to be equal:")
    for count in differences:
        expected, got = map(_short, values(count))
        result(f"  {count.name}: {expected} → {got} ({plural(count.items, 'item')})")


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _show_item(item: ItemComparison, width: int) -> None:
    marks = {verdict.rung: _MARKS[verdict.outcome] for verdict in item.verdicts}
    columns = "  ".join(f"{marks.get(rung, '-'):<9}" for rung in Rung) if marks else item.status.value
    result(f"{item.id:<{width}}  {columns}".rstrip())
    result(f"  {item.summary}")
    if item.agreement is not None:
        result(f"    in common: {alike(item.agreement)}")
    if item.difference is not None:
        result(f"    expected:  {item.difference.expected_words or '(no words)'}")
        result(f"    got:       {item.difference.got_words or '(no words)'}")


def _show_agreement(comparison: Comparison) -> None:
    from personaplex.compare.agreement import run_agreement

    found = run_agreement(comparison)
    if found.items:
        result("")
        result(f"In common, over {plural(found.items, 'item')}:")
        for name, phrase in run_alike(found).items():
            result(f"  {name:<16}  {phrase}")


def _verdict(comparison: Comparison) -> str:
    counts = _counts(comparison)
    others = [f"{counts[status]} {status.value}" for status in Status if status is not Status.compared]
    told = [text for text in others if not text.startswith("0 ")]
    ending = f" ({', '.join(told)})" if told else ""
    level = f"at the level of {comparison.level.value}"
    if comparison.fails:
        return f"{counts['failing']} of {plural(counts['items'], 'item')} failed {level}{ending}"
    same = counts[Status.compared]
    return f"{plural(same, 'item')} {'is' if same == 1 else 'are'} the same {level}{ending}"
