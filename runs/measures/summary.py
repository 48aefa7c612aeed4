"""The figures of a whole run, and of its calls by role, voice and seed."""

from collections.abc import Mapping, Sequence
from typing import Any

from personaplex.core.measures.figures import figures
from personaplex.core.measures.rows import Call, figures_document

SUMMARY = "measures.summary.json"
SUMMARY_SCHEMA = "personaplex.measures-summary/1"
GROUPINGS = ("role", "voice", "seed")


def summary(calls: Sequence[Call], failed: int, unanswered: int) -> dict[str, Any]:
    """All of it, as JSON has it."""
    return {
        "schema": SUMMARY_SCHEMA,
        "calls": len(calls),
        "failed": failed,
        "unanswered": unanswered,
        "minutes": round(sum(call.measured.duration for call in calls) / 60, 3),
        "vad": sorted({call.made.vad for call in calls}),
        "figures": figures_document(figures([call.measured for call in calls])),
        "groups": {
            grouping: {name: _group(members) for name, members in groups.items()}
            for grouping, groups in grouped(calls).items()
        },
    }


def _group(calls: Sequence[Call]) -> dict[str, Any]:
    return {"calls": len(calls), "figures": figures_document(figures([call.measured for call in calls]))}


def grouped(calls: Sequence[Call]) -> dict[str, Mapping[str, list[Call]]]:
    """The calls by each of `GROUPINGS` that parts them; a group has two calls or more, and there are two or more."""
    found: dict[str, Mapping[str, list[Call]]] = {}
    for grouping in GROUPINGS:
        groups: dict[str, list[Call]] = {}
        for call in calls:
            groups.setdefault(str(getattr(call.made, grouping)), []).append(call)
        several = {name: members for name, members in sorted(groups.items()) if len(members) > 1}
        if len(several) > 1:
            found[grouping] = several
    return found
