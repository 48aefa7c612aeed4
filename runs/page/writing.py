"""The page of a run: one file that holds everything, or a folder whose calls are loaded when they are shown."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex.compare.reports.parts import templates
from personaplex.core.audio.power import WINDOWS
from personaplex.core.corpus.results import failure, read_results
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.files import make_folder, replacing, write_text
from personaplex.core.measures.figures import DEFINITIONS
from personaplex.core.measures.rows import Call, read_measures
from personaplex.runs.measures.measuring import Watch, transcripts_of
from personaplex.runs.measures.recordings import Recordings
from personaplex.runs.page.calls import Lane, failed_row, peaks, show_call
from personaplex.runs.page.sounds import Beside, Inside, Sounds

INDEX, DATA = "index.html", "data"
_MARK = '<meta name="generator" content="personaplex page">'
_MEND = "move it away, or choose another place with -o"


@dataclass(frozen=True)
class PageMade:
    """What is on a page: how many calls, and what of them could not be shown, by their ids."""

    calls: int
    failed: Mapping[str, PersonaplexError]


@dataclass
class _Calls:
    """A run's calls on their way to a page, and the rows of its list so far."""

    run: Path
    recordings: Recordings
    transcripts: Sequence[tuple[str, Path]]
    unanswered: Mapping[str, str]
    measures: Mapping[str, Call]
    sounds: Sounds
    watch: Watch
    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, PersonaplexError] = field(default_factory=dict)

    def details(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the timeline of each call that has one; those without have a row alone."""
        for number, (name, transcript) in enumerate(self.transcripts):
            try:
                shown = show_call(name, transcript, self.recordings, self.measures.get(name))
                lanes = [self._lane(lane, number) for lane in shown.lanes]
                self.rows.append({"number": number, **shown.row})
                yield number, {**shown.detail, "lanes": lanes}
            except PersonaplexError as error:
                self.failed[name] = error
                self.rows.append({"number": number, **failed_row(name, error.what)})
            self.watch(number + 1, len(self.transcripts))
        for name, why in self.unanswered.items():
            self.rows.append({"number": len(self.rows), **failed_row(name, why)})

    def _lane(self, lane: Lane, number: int) -> dict[str, Any]:
        """A side with its sound; one whose sound can't be read says so."""
        made = {
            "name": lane.name,
            "words": lane.words,
            "late": lane.late,
            "peaks": "",
            "src": "",
            "missing": lane.missing,
        }
        if lane.sound is not None:
            try:
                made |= {"peaks": peaks(lane.sound), "src": self.sounds.address(lane.sound, number, lane.name)}
            except PersonaplexError as error:
                made["missing"] = error.what
        return made


def write_page(run: Path, place: Path, recordings: Path | None, watch: Watch) -> PageMade:
    """Write a run's page to `place`: a file if it ends in .html, else a folder.

    Raises UsageError where there is nothing to show or `place` is somebody else's, InputError where it can't be
    written.
    """
    transcripts, _ = transcripts_of(run)
    if not transcripts:
        raise UsageError(f"{run}: holds no answers", "name a folder that batch, talk or offline wrote to")
    folder = run if run.is_dir() else run.parent
    is_file = place.suffix.lower() == ".html"
    _check_place(place if is_file else place / INDEX, place if not is_file else None)
    calls = _Calls(
        run=run,
        recordings=Recordings(folder, recordings),
        transcripts=transcripts,
        unanswered=_unanswered(folder) if run.is_dir() else {},
        measures=read_measures(folder),
        sounds=Inside() if is_file else Beside(place),
        watch=watch,
    )
    if is_file:
        _write_file(calls, place)
    else:
        _write_folder(calls, place)
    return PageMade(len(transcripts), calls.failed)


def _unanswered(folder: Path) -> dict[str, str]:
    """The calls that the run could not answer, and why."""
    rows = read_results(folder)
    return {name: failure(row) or "failed" for name, row in rows.items() if row.get("status") == "failed"}


def _check_place(page: Path, folder: Path | None) -> None:
    """Raise UsageError for a page that would replace something that is none."""
    if os.path.lexists(page):
        try:
            ours = page.is_file() and _MARK in page.read_text(encoding="utf-8", errors="replace")[:4096]
        except OSError:
            ours = False
        if not ours:
            raise UsageError(f"{page}: is there and is no page of a run, and is not replaced", _MEND)
    elif folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there and holds no page of a run, and is not written to", _MEND)


def _write_file(calls: _Calls, place: Path) -> None:
    make_folder(place.parent)
    with replacing(place) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(_rendered(calls, calls.details(), rows=calls.rows))


def _write_folder(calls: _Calls, place: Path) -> None:
    """The page comes last: until it is there, nothing says that the folder is one."""
    make_folder(place / DATA)
    for number, detail in calls.details():
        _write_data(place / DATA / f"{number}.js", f"shown({number}, ", detail)
    _write_data(place / DATA / "calls.js", "listed(", calls.rows)
    write_text(place / INDEX, "".join(_rendered(calls, (), rows=None)))


def _write_data(path: Path, before: str, value: Any) -> None:
    """A script that hands a value over: what a page on a disk may load."""
    write_text(path, f"{before}{json.dumps(value, separators=(',', ':'))});\n")


def _rendered(calls: _Calls, details: Any, rows: list[dict[str, Any]] | None) -> Iterator[str]:
    """The page in pieces; `rows` is complete once all `details` have been taken, None where the page loads them."""
    template = templates(Path(__file__).parent).get_template("run.html")
    units = {name: one.unit.value for name, one in DEFINITIONS.items()}
    return template.generate(
        run=str(calls.run), mark=_MARK, details=details, rows=rows, units=units, windows=WINDOWS, data=DATA
    )
