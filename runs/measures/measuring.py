"""A whole run measured: its calls side by side, each failing alone, and the two files that say what came of it."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from personaplex.core.corpus.results import read_results
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.files import read_json, read_object, schema_of, write_text
from personaplex.core.measures.rows import MEASURES, SCHEMA, Call, failed_row
from personaplex.runs.measures.calls import measure_call, read_call
from personaplex.runs.measures.ears import ENERGY, Ear
from personaplex.runs.measures.recordings import Recordings
from personaplex.runs.measures.summary import SUMMARY, SUMMARY_SCHEMA, summary

_MOST_WORKERS = 8
_TRANSCRIPTS = ("personaplex.transcript/", "personaplex.conversation/")
_MEND = "move it away, or choose another folder with -o"

Watch = Callable[[int, int], None]
"""Told how many calls of how many are done."""


@dataclass(frozen=True)
class Failed:
    """A call that can't be measured, and why."""

    id: str
    error: PersonaplexError


@dataclass(frozen=True)
class RunMeasures:
    """What came of a run's calls, in its order; `unanswered` had no answer to measure."""

    calls: Sequence[Call]
    failed: Sequence[Failed]
    unanswered: int
    outcomes: Sequence[Call | Failed]

    @property
    def document(self) -> dict[str, Any]:
        """The run's figures, as JSON has them."""
        return summary(self.calls, len(self.failed), self.unanswered)

    def write(self, folder: Path) -> None:
        """Write the calls' lines and the run's figures; raises InputError, and UsageError for what is not ours."""
        check_places(folder)
        lines = [one.row if isinstance(one, Call) else failed_row(one.id, one.error) for one in self.outcomes]
        write_text(folder / MEASURES, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
        write_text(folder / SUMMARY, json.dumps(self.document, indent=2, ensure_ascii=False) + "\n")


def measure_run(
    run: Path, recordings: Path | None = None, ear: Ear = ENERGY, watch: Watch | None = None
) -> RunMeasures:
    """Measure every answer of a run's folder, or of one transcript; `recordings` is where the callers' lie.

    Raises UsageError where there is nothing to measure.
    """
    transcripts, unanswered = transcripts_of(run)
    if not transcripts:
        raise UsageError(f"{run}: holds no answers", "name a folder that batch or offline wrote to")
    places = Recordings(run if run.is_dir() else run.parent, recordings)

    def measured(one: tuple[str, Path]) -> Call | Failed:
        try:
            return measure_call(read_call(one[1]), one[0], places, ear)
        except PersonaplexError as error:
            return Failed(one[0], error)

    outcomes: list[Call | Failed] = []
    with ThreadPoolExecutor(min(_MOST_WORKERS, os.cpu_count() or 1)) as pool:
        for outcome in pool.map(measured, transcripts):
            outcomes.append(outcome)
            if watch is not None:
                watch(len(outcomes), len(transcripts))
    calls = [one for one in outcomes if isinstance(one, Call)]
    return RunMeasures(calls, [one for one in outcomes if isinstance(one, Failed)], unanswered, outcomes)


def transcripts_of(run: Path) -> tuple[list[tuple[str, Path]], int]:
    """The ids and transcripts of a run's answers, in its order, and how many calls have none."""
    if run.is_file():
        return [(run.stem, run)], 0
    if not run.is_dir():
        raise UsageError(f"{run}: there is no such folder", "name a folder that batch or offline wrote to")
    rows = read_results(run)
    if not rows:
        return list(_found(run)), 0
    done = [(name, run / f"{name}.json") for name, row in rows.items() if row.get("status") == "done"]
    return done, sum(row.get("status") == "failed" for row in rows.values())


def _found(folder: Path) -> Iterator[tuple[str, Path]]:
    """The transcripts below a folder without results; what is no whole JSON may have been one."""
    for path in sorted(folder.rglob("*.json")):
        if path.name.startswith(".") or not path.is_file():
            continue
        try:
            document = read_json(path, "", "")
        except UsageError:
            document = {"schema": _TRANSCRIPTS[0]}
        if str(schema_of(document)).startswith(_TRANSCRIPTS):
            yield path.relative_to(folder).with_suffix("").as_posix(), path


def check_places(folder: Path) -> None:
    """Raise UsageError if measures would replace in a folder what is none."""
    path = folder / MEASURES
    if os.path.lexists(path) and not _is_ours(path, _first_line(path), SCHEMA):
        raise UsageError(f"{path}: is there and holds no measures, and is not replaced", _MEND)
    path = folder / SUMMARY
    if os.path.lexists(path) and not _is_ours(path, read_object(path), SUMMARY_SCHEMA):
        raise UsageError(f"{path}: is there and holds no measures, and is not replaced", _MEND)


def _is_ours(path: Path, document: Any, schema: str) -> bool:
    family = schema.partition("/")[0] + "/"
    return not path.is_symlink() and str(schema_of(document)).startswith(family)


def _first_line(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return json.loads(file.readline() or "null")
    except (OSError, ValueError, RecursionError):
        return None
