"""The ladder: an item's verdicts from the strictest rung down, and whether they fail at a level."""

from collections.abc import Mapping, Sequence

from personaplex.compare.agreement import agreement
from personaplex.compare.alignment import Alignment, align, spoken
from personaplex.compare.difference import foreign_tokens
from personaplex.compare.document import answer
from personaplex.compare.expectations import check_expectations
from personaplex.compare.identity import identity_differences
from personaplex.compare.rungs import compare_loudness, compare_samples, compare_timing, compare_tokens, compare_words
from personaplex.compare.verdicts import (
    Comparison,
    FirstDifference,
    ItemComparison,
    Level,
    Outcome,
    Recorded,
    Rung,
    Status,
    Tolerances,
    Verdict,
)

_FAILING = {
    Level.samples: {*Rung},
    Level.tokens: {*Rung} - {Rung.samples},
    Level.words: {Rung.words, Rung.timing, Rung.loudness},
    Level.timing: {Rung.timing, Rung.loudness},
}


def compare_runs(
    expected: Mapping[str, Recorded],
    got: Mapping[str, Recorded],
    names: tuple[str, str],
    level: Level,
    tolerances: Tolerances,
) -> Comparison:
    """Two runs, item by item: those of `expected` in its order, then those that only `got` has.

    `names` are what the user calls the runs. Raises UsageError for a broken file of tokens or WAV, and for an
    `expect` that makes no sense.
    """
    items = tuple(compare_items(expected.get(id_), got.get(id_), level, tolerances) for id_ in {**expected, **got})
    return Comparison(*names, level, tolerances, items)


def compare_items(
    expected: Recorded | None, got: Recorded | None, level: Level, tolerances: Tolerances
) -> ItemComparison:
    """One item of two runs, None where a run lacks it; not of neither.

    The answer in `got` is held to its own `expect`, or else to that of `expected`. Raises as `compare_runs` does.
    """
    if expected is None or got is None or expected.document is None or got.document is None:
        return _not_compared(expected, got)
    alignment = align(spoken(expected.document), spoken(got.document))
    verdicts, difference = _verdicts(expected, got, alignment, tolerances)
    measured = None if got.measures is None else got.measures.measured
    expectations = check_expectations(got.expect or expected.expect, got.document, measured)
    unmet = (f"{one.name}: {one.detail}" for one in expectations if not one.passed)
    faults = [*_foreign(expected, got), *_faults(verdicts, level), *unmet]
    return ItemComparison(
        id=expected.id,
        status=Status.compared,
        fails=bool(faults),
        summary="; ".join(faults) or _forgiven(verdicts, level),
        expected=expected,
        got=got,
        verdicts=verdicts,
        difference=difference,
        identity=identity_differences(expected.document, got.document),
        expectations=expectations,
        agreement=agreement(expected.document, got.document, alignment),
    )


def _not_compared(expected: Recorded | None, got: Recorded | None) -> ItemComparison:
    status, summary = _status(expected, got)
    item = expected or got
    if item is None:
        raise ValueError("an item of neither run")
    return ItemComparison(item.id, status, status is not Status.failed, summary, expected, got)


def _status(expected: Recorded | None, got: Recorded | None) -> tuple[Status, str]:
    """How it comes that an item can't be compared, and that in a line."""
    if got is None:
        return Status.missing, "missing: only the expected run has it"
    if expected is None:
        return Status.extra, "extra: the expected run hasn't got it"
    if got.document is not None:
        return Status.broken, f"has an answer, but failed in the expected run: {_line(expected.failure)}"
    if expected.document is not None:
        return Status.broken, f"failed, but has an answer in the expected run: {_line(got.failure)}"
    return Status.failed, f"failed in both runs: {_line(got.failure)}"


def _line(text: str | None) -> str:
    return " ".join((text or "for a reason unknown").split())


def _verdicts(
    expected: Recorded, got: Recorded, alignment: Alignment, tolerances: Tolerances
) -> tuple[tuple[Verdict, ...], FirstDifference | None]:
    ours, theirs = answer(expected), answer(got)
    tokens, difference = compare_tokens(expected, got)
    verdicts = (
        tokens,
        compare_samples(expected, got),
        compare_words(alignment, tolerances),
        compare_timing(alignment, tolerances),
        compare_loudness(ours, theirs, tolerances),
    )
    return verdicts, difference


def _foreign(*sides: Recorded) -> list[str]:
    """Saved tokens of another answer, which fail at every level: what a transcript is compared by isn't sure then."""
    return [told for told in map(foreign_tokens, sides) if told is not None]


def _faults(verdicts: Sequence[Verdict], level: Level) -> list[str]:
    """What is wrong at a level: the strictest of its rungs that differ, or none."""
    return [one.detail for one in verdicts if one.rung in _FAILING[level] and _is_fault(one)][:1]


def _is_fault(verdict: Verdict) -> bool:
    """Whether a rung isn't the same: samples of other formats, which can't be judged, aren't."""
    return verdict.outcome is Outcome.different or (verdict.rung is Rung.samples and verdict.outcome is Outcome.unknown)


def _forgiven(verdicts: Sequence[Verdict], level: Level) -> str:
    """What to say of an item that doesn't fail: the strictest rung that differs is told nevertheless."""
    told = [one.detail for one in verdicts if one.outcome is Outcome.different]
    return f"the same at the level of {level}; {told[0]}" if told else "same"
