"""Recording goldens, running them again, and what to do about a difference."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from personaplex.cli.batch_run import INTERRUPTED, execute
from personaplex.cli.compare_report import DIFFERENT, Reports, report
from personaplex.cli.console import log, notice, result
from personaplex.cli.rerun import Rerun, batch_again, golden_row, golden_settings, planned_again, read_run
from personaplex.compare import goldens as g
from personaplex.compare.difference import tokens_of
from personaplex.compare.ladder import compare_runs
from personaplex.compare.recorded import read_run as read_results
from personaplex.compare.verdicts import Comparison, Level, Recorded, Status, Tolerances
from personaplex.core.errors import UsageError


@dataclass(frozen=True)
class Check:
    """What counts as a difference, and how it is told."""

    level: Level
    tolerances: Tolerances
    allow_unused: bool
    reports: Reports


def record_goldens(run: Path, folder: Path, audio: bool) -> None:
    """Make goldens of a batch's answers; raises UsageError, and InputError for what can't be written."""
    settings = read_run(run)
    if (folder / g.SETTINGS).exists():
        mend = "bring it up to date with `personaplex regress update`, or choose another folder"
        raise UsageError(f"{folder}: holds goldens already", mend)
    found = read_results(run)
    planned = {item.item.id: item for item in planned_again(run, settings)}
    answered = {name: found[name] for name in planned if name in found and found[name].document is not None}
    if not answered:
        raise UsageError(f"{run}: holds no answers", "name a folder that `personaplex batch` wrote to")
    for name, item in answered.items():
        if item.document is not None and item.document["sampling"]["seed"] != planned[name].seed:
            raise UsageError(f"{run}: {name} is of another run than {g.MANIFEST}", "run the batch again")
        g.write_golden(folder, item, audio)
    g.write_manifest(folder, [golden_row(planned[name], folder) for name in answered])
    g.write_settings(folder, golden_settings(settings, folder))
    _tell_recorded(planned, answered, run)
    result(f"recorded {len(answered):,} goldens in {folder}")


def _tell_recorded(planned: Mapping[str, Any], answered: Mapping[str, Recorded], run: Path) -> None:
    if len(answered) < len(planned):
        log.warning(
            "%d of %d items have no answer in %s and no golden", len(planned) - len(answered), len(planned), run
        )
    textual = sum(tokens_of(item).shape[1] == 1 for item in answered.values())
    if textual:
        log.warning(
            "%d goldens hold no audio tokens: a difference in these will be found, but not its frame; "
            "run the batch with --save-tokens for that",
            textual,
        )


@dataclass(frozen=True)
class _Outcome:
    """Goldens held against a new run; `code` is the new run's exit code."""

    goldens: g.Goldens
    got: Mapping[str, Recorded]
    run: Mapping[str, Any]
    comparison: Comparison
    code: int


def check_goldens(folder: Path, rerun: Rerun, check: Check) -> int:
    """Run goldens again, tell what differs and return the exit code."""
    with _rerun(folder, rerun, check) as outcome:
        if outcome.code == INTERRUPTED:
            return INTERRUPTED
        code = report(outcome.comparison, check.reports)
        statuses = {item.status for item in outcome.comparison.items}
        if Status.extra in statuses:
            notice("calls without a golden get one by `personaplex regress update`")
        if Status.missing in statuses:
            notice("goldens that no row names are removed by `personaplex regress update`, or let be by --allow-unused")
        return code


def update_goldens(folder: Path, rerun: Rerun, check: Check, yes: bool) -> int:
    """Run goldens again, tell what differs and, with `yes`, write it over them; returns the exit code."""
    with _rerun(folder, rerun, check) as outcome:
        if outcome.code == INTERRUPTED:
            return INTERRUPTED
        report(outcome.comparison, check.reports)
        changed = [item for item in outcome.comparison.items if _changed(outcome, item.id)]
        if not changed:
            result("all goldens are up to date")
            return 0
        if not yes:
            result(f"{len(changed)} goldens would be rewritten; add --yes to do so")
            return DIFFERENT
        return _rewrite(folder, outcome, [item.id for item in changed])


def _changed(outcome: _Outcome, name: str) -> bool:
    """Whether the new run's golden would be another file than the old one."""
    old, new = outcome.goldens.items.get(name), outcome.got.get(name)
    if old is None or new is None:
        return True
    return new.document is None or g.golden(old) != g.golden(new)


def _rewrite(folder: Path, outcome: _Outcome, names: list[str]) -> int:
    failed = 0
    for name in names:
        new = outcome.got.get(name)
        if new is None:
            g.remove_golden(folder, name)
        elif new.document is None:
            failed += 1
            log.error("%s: %s; its golden stays", name, new.failure)
        else:
            old = outcome.goldens.items.get(name)
            g.write_golden(folder, new, audio=old is not None and old.audio is not None)
    kept = ("model", "engine")
    g.write_settings(folder, {**outcome.goldens.settings, **{name: outcome.run[name] for name in kept}})
    result(f"updated {len(names) - failed:,} goldens in {folder}")
    return 1 if failed else 0


def _in_terms_of_goldens(comparison: Comparison, folder: Path) -> Comparison:
    """Say of an item that one side lacks what that means here."""
    said = {
        Status.missing: "unused: no row of the manifest names this golden",
        Status.extra: "no golden: {} is missing",
    }
    items = (
        replace(item, summary=said[item.status].format(g.golden_path(folder, item.id))) if item.status in said else item
        for item in comparison.items
    )
    return replace(comparison, items=tuple(items))


@contextmanager
def _rerun(folder: Path, rerun: Rerun, check: Check) -> Iterator[_Outcome]:
    goldens = g.read_goldens(folder)
    with tempfile.TemporaryDirectory(prefix="personaplex-") as scratch:
        output = rerun.output or Path(scratch)
        request = batch_again(folder, goldens.manifest, goldens.settings, rerun, output)
        code, _ = execute(request)
        found = {} if code == INTERRUPTED else read_results(output)
        got = {name: found[name] for name in goldens.calls if name in found}  # the folder may hold other runs' too
        items = {
            name: item for name, item in goldens.items.items() if not (check.allow_unused and name in goldens.unused)
        }
        names = (str(folder), str(rerun.output or "the new run"))
        comparison = _in_terms_of_goldens(compare_runs(items, got, names, check.level, check.tolerances), folder)
        yield _Outcome(goldens, got, {} if code == INTERRUPTED else read_run(output), comparison, code)
