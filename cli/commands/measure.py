"""`personaplex measure`: how the two sides of each call of a run take turns."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, result
from personaplex.core.faults import shown

if TYPE_CHECKING:
    from personaplex.runs.measures.measuring import RunMeasures, Watch

EXAMPLE = "Example: personaplex measure answers"


class Vad(StrEnum):
    """What tells speech from silence."""

    energy = "energy"
    silero = "silero"


Recordings = Annotated[
    Path | None,
    o.option(
        "--recordings",
        panel=o.INPUT,
        file_okay=False,
        show_default="where the run took them from",
        help="Folder in which the callers' recordings are looked for first.",
    ),
]


def measure(
    run: Annotated[Path, typer.Argument(help="A folder that batch wrote to, or one transcript.")],
    output_dir: Annotated[
        Path | None,
        o.option(
            "--output-dir",
            "-o",
            panel=o.OUTPUT,
            file_okay=False,
            show_default="the run's folder",
            help="Folder for measures.jsonl and measures.summary.json.",
        ),
    ] = None,
    recordings: Recordings = None,
    vad: Annotated[
        Vad, o.option("--vad", panel=o.INPUT, metavar="VAD", help="What tells speech from silence: energy or silero.")
    ] = Vad.energy,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Measure how both sides of each call take turns: gaps, overlaps, answers, interruptions, silence.

    Writes measures.jsonl, a line a call with all its events, and measures.summary.json. Of one transcript they are
    written only with -o.
    """
    configure(log_level, quiet)
    from personaplex.cli.measures import show_measures

    found = measure_into(output_dir or (run if run.is_dir() else None), run, recordings, vad, not quiet)
    if as_json:
        result(json.dumps(found.document, indent=2, ensure_ascii=False))
    else:
        show_measures(found, result)
    raise typer.Exit(1 if found.failed else 0)


def measure_into(folder: Path | None, run: Path, recordings: Path | None, vad: Vad, progress: bool) -> "RunMeasures":
    """Measure a run, write what came of it to a folder if one is given, and tell of what can't be measured."""
    from personaplex.runs.measures.ears import ENERGY, silero
    from personaplex.runs.measures.measuring import check_places, measure_run

    if folder is not None:
        check_places(folder)
    ear = silero() if vad is Vad.silero else ENERGY
    with watching(progress) as watch:
        found = measure_run(run, recordings, ear, watch)
    if folder is not None:
        found.write(folder)
    for one in found.failed:
        log.error("%s", shown(f"{one.id}: can't be measured: {one.error.what}; {one.error.mend}"))
    return found


@contextmanager
def watching(is_shown: bool) -> "Iterator[Watch]":
    """What shows how many calls are measured, on a terminal."""
    from tqdm import tqdm

    with tqdm(desc="measured", unit="call", leave=False, disable=not (is_shown and sys.stderr.isatty())) as bar:

        def watch(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        yield watch
