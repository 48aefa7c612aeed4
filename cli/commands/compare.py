"""`personaplex compare`: two runs side by side, and the first frame that differs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.comparison import Reports, report
from personaplex.cli.console import LogLevel, configure
from personaplex.compare.verdicts import Level, Tolerances
from personaplex.core.errors import UsageError

if TYPE_CHECKING:
    from personaplex.compare.verdicts import Recorded

EXAMPLE = "Example: personaplex compare answers-before answers-after --html report.html"

COMPARISON, REPORT = "Comparison", "Reports"

LevelOption = Annotated[
    Level,
    o.option(
        "--level",
        panel=COMPARISON,
        metavar="LEVEL",
        help="samples, tokens, words or timing: the strictest that must be the same.",
    ),
]
MaxWer = Annotated[
    float, o.option("--max-wer", panel=COMPARISON, min=0, help="Word error rate up to which words are the same.")
]
TimeTolerance = Annotated[
    int, o.option("--time-tolerance", panel=COMPARISON, min=0, help="Frames (80 ms) by which words may move.")
]
LoudnessTolerance = Annotated[
    float, o.option("--loudness-tolerance", panel=COMPARISON, min=0, help="dB by which the RMS level may differ.")
]
ActivityTolerance = Annotated[
    float, o.option("--activity-tolerance", panel=COMPARISON, min=0, help="By which the share of speech may differ.")
]
Junit = Annotated[
    Path | None, o.option("--junit", panel=REPORT, dir_okay=False, help="Write JUnit XML, a test case an item.")
]
Html = Annotated[
    Path | None, o.option("--html", panel=REPORT, dir_okay=False, help="Write a page with players and waveforms.")
]
Github = Annotated[
    bool | None,
    o.option(
        "--github/--no-github",
        panel=REPORT,
        show_default="where GITHUB_ACTIONS is true",
        help="Tell the first ten differences as GitHub annotations.",
    ),
]


def compare(
    expected: Annotated[Path, typer.Argument(help="A folder of results, or one transcript.")],
    got: Annotated[Path, typer.Argument(help="Another, to be held against the first.")],
    level: LevelOption = Level.samples,
    max_wer: MaxWer = 0.0,
    time_tolerance: TimeTolerance = 1,
    loudness_tolerance: LoudnessTolerance = 1.0,
    activity_tolerance: ActivityTolerance = 0.05,
    junit: Junit = None,
    html: Html = None,
    github: Github = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Compare two runs, item by item: tokens, samples, words, their times, loudness.

    Where tokens differ it names the first one that was drawn differently: its frame, its second and its stream.
    Exit 0: the same; 4: different; 2: nothing to compare.
    """
    configure(log_level, quiet)
    from personaplex.compare.ladder import compare_runs

    tolerances = Tolerances(max_wer, time_tolerance, loudness_tolerance, activity_tolerance)
    runs = read_both(expected, got)
    comparison = compare_runs(*runs, (str(expected), str(got)), level, tolerances)
    raise typer.Exit(report(comparison, Reports(junit, html, github, as_json)))


def read_both(expected: Path, got: Path) -> "tuple[dict[str, Recorded], dict[str, Recorded]]":
    """Two folders' items, or two transcripts as one item; raises UsageError where nothing can be compared."""
    from personaplex.compare.recorded import read_run

    if expected.is_dir() != got.is_dir() and expected.exists() and got.exists():
        raise UsageError(f"{expected} and {got}: one is a folder, the other is not", "name two of a kind")
    runs = read_run(expected), read_run(got)
    for path, run in zip((expected, got), runs, strict=True):
        if not run:
            raise UsageError(f"{path}: holds no transcripts", "name a folder that batch or offline wrote to")
    if not expected.is_dir():
        (one,), (other,) = (run.values() for run in runs)
        return {one.id: one}, {one.id: replace(other, id=one.id)}
    if not runs[0].keys() & runs[1].keys():
        mend = "name two runs of the same calls: items go together by their paths below the folders"
        raise UsageError(f"{expected} and {got}: have no item in common", mend)
    return runs
