"""Goldens held against a new run of their calls, and rewritten by it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from personaplex.compare import goldens as g
from personaplex.compare.ladder import compare_runs
from personaplex.compare.recorded import read_run
from personaplex.compare.verdicts import Comparison, Level, Recorded, Status, Tolerances
from personaplex.core.errors import UsageError
from personaplex.runs.batch import Outcome, run_batch
from personaplex.runs.goldens.again import Rerun, batch_again
from personaplex.runs.goldens.recording import golden_document, golden_settings
from personaplex.runs.measures.measuring import measure_run
from personaplex.runs.observer import Observer
from personaplex.runs.settings import RunRecord, read_record


@dataclass(frozen=True)
class Check:
    """What counts as a difference."""

    level: Level
    tolerances: Tolerances
    allow_unused: bool


@dataclass(frozen=True)
class Held:
    """Goldens held against a new run, whose record is `run`."""

    goldens: g.Goldens
    got: Mapping[str, Recorded]
    run: RunRecord
    comparison: Comparison

    @property
    def failures(self) -> dict[str, str | None]:
        """Why items of the new run have no answer, by id."""
        return {name: new.failure for name, new in self.got.items() if new.document is None}

    @property
    def changed(self) -> list[str]:
        """The items of which the new run's golden would be another file than the old one, or of which one is lacking.

        Raises UsageError for a broken file of tokens.
        """
        return [item.id for item in self.comparison.items if self._is_changed(item.id)]

    def _is_changed(self, name: str) -> bool:
        old, new = self.goldens.items.get(name), self.got.get(name)
        return old is None or new is None or g.golden(old) != g.golden(new)

    def rewrite(self, names: list[str]) -> None:
        """Write what the new run gave over these goldens; raises InputError."""
        folder = self.goldens.folder
        for name in names:
            new, old = self.got.get(name), self.goldens.items.get(name)
            if new is None:
                g.remove_golden(folder, name)
            else:
                g.write_golden(folder, new, audio=old is not None and old.audio is not None)
        settings = golden_document(golden_settings(self.run, folder))
        g.write_settings(folder, settings | {"output": self.goldens.settings["output"]})


@contextmanager
def held_again(folder: Path, rerun: Rerun, check: Check, observer: Observer) -> Iterator[Held | Outcome]:
    """Run goldens again and hold them against that; gives the outcome alone of a run that was stopped.

    The outputs are there meanwhile. Raises UsageError for goldens that can't be read or run.
    """
    goldens = g.read_goldens(folder)
    with tempfile.TemporaryDirectory(prefix="personaplex-") as scratch:
        output = rerun.output or Path(scratch)
        if {output.resolve(), *output.resolve().parents} & {folder.resolve()}:
            raise UsageError(f"-o {output}: would write among the goldens", "choose another folder")
        request = batch_again(folder, goldens.manifest, goldens.settings, rerun, output)
        outcome = run_batch(request, observer)
        if outcome.stopped:
            yield outcome
            return
        if any(item.expect.get("measures") for item in goldens.items.values()):
            measure_run(output).write(output)
        found = read_run(output)
        got = {name: found[name] for name in goldens.calls if name in found}  # the folder may hold other runs' too
        items = {
            name: item for name, item in goldens.items.items() if not (check.allow_unused and name in goldens.unused)
        }
        names = (str(folder), str(rerun.output or "the new run"))
        comparison = _in_terms_of_goldens(compare_runs(items, got, names, check.level, check.tolerances), folder)
        yield Held(goldens, got, read_record(output), comparison)


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
