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
from personaplex.cli.rerun import (
    Rerun,
    batch_again,
    expected_answer,
    golden_row,
    golden_settings,
    planned_again,
    read_settings,
)
from personaplex.compare import goldens as g
from personaplex.compare.document import answer
from personaplex.compare.ladder import compare_runs
from personaplex.compare.recorded import read_run
from personaplex.compare.telling import plural
from personaplex.compare.verdicts import Comparison, Level, Recorded, Status, Tolerances
from personaplex.core.answers.resume import agrees
from personaplex.core.corpus.results import RUN
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
    settings = read_settings(run)
    if (folder / g.SETTINGS).exists():
        mend = "bring it up to date with `personaplex regress update`, or choose another folder"
        raise UsageError(f"{folder}: holds goldens already", mend)
    if (folder / g.ITEMS).is_dir() and any((folder / g.ITEMS).iterdir()):
        raise UsageError(f"{folder / g.ITEMS}: is not empty", "remove what a broken-off record left, or choose another")
    found = read_run(run)
    planned = {item.item.id: item for item in planned_again(run, settings)}
    answered = {name: found[name] for name in planned if name in found and found[name].document is not None}
    if not answered:
        raise UsageError(f"{run}: holds no answers", "name a folder that `personaplex batch` wrote to")
    for name, item in answered.items():
        if not agrees(answer(item), expected_answer(planned[name], settings)):
            raise UsageError(f"{run}: {name} was made by another run than that of {RUN}", "run the batch again")
    documents = [g.write_golden(folder, item, audio) for item in answered.values()]
    g.write_manifest(folder, [golden_row(planned[name], folder) for name in answered])
    g.write_settings(folder, golden_settings(settings, folder))
    _tell_recorded(run, len(planned), documents)
    result(f"recorded {plural(len(answered), 'golden')} in {folder}")


def _tell_recorded(run: Path, planned: int, documents: list[dict[str, Any]]) -> None:
    if len(documents) < planned:
        log.warning("%d of %d items have no answer in %s and no golden", planned - len(documents), planned, run)
    textual = sum("tokens" not in document for document in documents)
    if textual:
        log.warning(
            "%d goldens hold no audio tokens: a difference in these will be found, but not its frame; "
            "run the batch with --save-tokens for that",
            textual,
        )


@dataclass(frozen=True)
class _Held:
    """Goldens held against a new run, whose `run.json` is `run`."""

    goldens: g.Goldens
    got: Mapping[str, Recorded]
    run: Mapping[str, Any]
    comparison: Comparison


def check_goldens(folder: Path, rerun: Rerun, check: Check) -> int:
    """Run goldens again, tell what differs and return the exit code."""
    with _rerun(folder, rerun, check) as outcome:
        if outcome is None:
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
        if outcome is None:
            return INTERRUPTED
        report(outcome.comparison, check.reports)
        tell = notice if check.reports.as_json else result  # stdout is JSON then
        failed = {name: new.failure for name, new in outcome.got.items() if new.document is None}
        for name, failure in failed.items():
            log.error("%s: %s", name, failure)
        if failed:
            tell(f"{plural(len(failed), 'call')} can't be run: no golden was written")
            return 1
        changed = [item.id for item in outcome.comparison.items if _changed(outcome, item.id)]
        if not changed:
            unmet = any(not one.passed for item in outcome.comparison.items for one in item.expectations)
            tell("all goldens are up to date" + ("; what they expect stays unmet" if unmet else ""))
            return DIFFERENT if unmet else 0
        if not yes:
            tell(f"{plural(len(changed), 'golden')} would be rewritten; add --yes to do so")
            return DIFFERENT
        _rewrite(folder, outcome, changed)
        tell(f"updated {plural(len(changed), 'golden')} in {folder}")
        return 0


def _changed(outcome: _Held, name: str) -> bool:
    """Whether the new run's golden would be another file than the old one."""
    old, new = outcome.goldens.items.get(name), outcome.got.get(name)
    if old is None or new is None:
        return True
    return g.golden(old) != g.golden(new)


def _rewrite(folder: Path, outcome: _Held, names: list[str]) -> None:
    """Write what the new run gave over these goldens."""
    for name in names:
        new, old = outcome.got.get(name), outcome.goldens.items.get(name)
        if new is None:
            g.remove_golden(folder, name)
        else:
            g.write_golden(folder, new, audio=old is not None and old.audio is not None)
    g.write_settings(folder, golden_settings(outcome.run, folder) | {"output": outcome.goldens.settings["output"]})


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
def _rerun(folder: Path, rerun: Rerun, check: Check) -> Iterator[_Held | None]:
    """Run goldens again and hold them against that; None if it was interrupted. The outputs are there meanwhile."""
    goldens = g.read_goldens(folder)
    with tempfile.TemporaryDirectory(prefix="personaplex-") as scratch:
        output = rerun.output or Path(scratch)
        if {output.resolve(), *output.resolve().parents} & {folder.resolve()}:
            raise UsageError(f"-o {output}: would write among the goldens", "choose another folder")
        request = batch_again(folder, goldens.manifest, goldens.settings, rerun, output)
        code = execute(request)
        if code == INTERRUPTED:
            yield None
            return
        found = read_run(output)
        got = {name: found[name] for name in goldens.calls if name in found}  # the folder may hold other runs' too
        items = {
            name: item for name, item in goldens.items.items() if not (check.allow_unused and name in goldens.unused)
        }
        names = (str(folder), str(rerun.output or "the new run"))
        comparison = _in_terms_of_goldens(compare_runs(items, got, names, check.level, check.tolerances), folder)
        yield _Held(goldens, got, read_settings(output), comparison)
