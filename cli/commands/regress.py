"""`personaplex regress`: a run kept as goldens, run again and held against them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.commands import compare as c
from personaplex.cli.commands.batch import ended
from personaplex.cli.comparison import DIFFERENT, Reports, report
from personaplex.cli.console import LogLevel, configure, log, notice, result, summary
from personaplex.compare.reports.telling import plural
from personaplex.compare.verdicts import Level, Status, Tolerances
from personaplex.runs.choices import Dtype, Quantize

if TYPE_CHECKING:
    from personaplex.runs.goldens.checking import Held

app = typer.Typer(
    help="Goldens: keep what a run said, run it again, see what changed.",
    epilog="Example: personaplex regress record answers -o goldens && personaplex regress check goldens",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="A folder of goldens, as regress record makes it.")]
Outputs = Annotated[
    Path | None,
    o.option("--output-dir", "-o", panel=o.OUTPUT, show_default="thrown away", help="Keep the new run's outputs."),
]
ModelName = Annotated[
    str | None,
    o.option(
        "--model", panel=o.MODEL, show_default="as recorded", help="Hub id, directory, or packaged model: nano, tiny."
    ),
]
Device = Annotated[
    str | None, o.option("--device", panel=o.MODEL, show_default="as recorded", help="auto, cuda, cuda:N, mps or cpu.")
]
DtypeName = Annotated[
    Dtype | None,
    o.option(
        "--dtype", panel=o.MODEL, show_default="as recorded", metavar="TYPE", help="bfloat16, float16 or float32."
    ),
]
QuantizeOption = Annotated[
    Quantize | None,
    o.option("--quantize", panel=o.MODEL, show_default="as recorded", help="int8: the large layers in int8."),
]
Slots = Annotated[
    int | None,
    o.option("--slots", panel=o.RUN, min=1, show_default="as recorded, or what fits", help="Calls at a time."),
]


@app.callback()
def regress() -> None:
    """Goldens: keep what a run said, run it again, see what changed."""


@app.command("record", epilog="Example: personaplex regress record answers -o goldens")
def record(
    run: Annotated[Path, typer.Argument(help="A folder of results that batch wrote, best with --save-tokens.")],
    output_dir: Annotated[Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="The goldens' folder, made anew.")],
    audio: Annotated[bool, o.option("--audio", panel=o.OUTPUT, help="Keep the agent's WAVs too.")] = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Keep a batch's answers as goldens: tokens, words and hashes, and what it takes to run them again.

    The recordings and voices stay where they are; the goldens name them relative to their folder.
    """
    configure(log_level, quiet)
    from personaplex.runs.goldens.recording import record_goldens

    made = record_goldens(run, output_dir, audio)
    if made.recorded < made.planned:
        missing = made.planned - made.recorded
        log.warning("%d of %d items have no answer in %s and no golden", missing, made.planned, run)
    if made.textual:
        log.warning(
            "%d goldens hold no audio tokens: a difference in these will be found, but not its frame; "
            "run the batch with --save-tokens for that",
            made.textual,
        )
    summary(f"recorded {plural(made.recorded, 'golden')} in {output_dir}")


@app.command("check", epilog="Example: personaplex regress check goldens --junit report.xml --html report.html")
def check(
    goldens: Folder,
    allow_unused: Annotated[
        bool, o.option("--allow-unused", panel=c.COMPARISON, help="Let goldens be that no row of the manifest names.")
    ] = False,
    level: c.LevelOption = Level.samples,
    max_wer: c.MaxWer = 0.0,
    time_tolerance: c.TimeTolerance = 1,
    loudness_tolerance: c.LoudnessTolerance = 1.0,
    activity_tolerance: c.ActivityTolerance = 0.05,
    output_dir: Outputs = None,
    slots: Slots = None,
    model: ModelName = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: Device = None,
    dtype: DtypeName = None,
    quantize: QuantizeOption = None,
    junit: c.Junit = None,
    html: c.Html = None,
    github: c.Github = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Run the goldens' calls again and compare: exit 0 if all is as it was, 4 if something differs."""
    configure(log_level, quiet)
    from personaplex.cli.progress import BatchObserver
    from personaplex.core.weights.model import Overrides
    from personaplex.runs.goldens.again import Rerun
    from personaplex.runs.goldens.checking import Check, Held, held_again

    tolerances = Tolerances(max_wer, time_tolerance, loudness_tolerance, activity_tolerance)
    overrides = Overrides(moshi_weight, mimi_weight, tokenizer)
    rerun = Rerun(model, revision, overrides, device, dtype, quantize, slots, output_dir, tuple(sys.argv))
    observer = BatchObserver(not quiet)
    with held_again(goldens, rerun, Check(level, tolerances, allow_unused), observer) as held:
        if not isinstance(held, Held):
            raise typer.Exit(ended(held.counts, held.stopped, observer.interrupted))
        code = report(held.comparison, Reports(junit, html, github, as_json))
        statuses = {item.status for item in held.comparison.items}
        if Status.extra in statuses:
            notice("calls without a golden get one by `personaplex regress update`")
        if Status.missing in statuses:
            notice("goldens that no row names are removed by `personaplex regress update`, or let be by --allow-unused")
    raise typer.Exit(code)


@app.command("update", epilog="Example: personaplex regress update goldens --yes")
def update(
    goldens: Folder,
    yes: Annotated[bool, o.option("--yes", "-y", panel=c.COMPARISON, help="Write the changes.")] = False,
    output_dir: Outputs = None,
    slots: Slots = None,
    model: ModelName = None,
    revision: o.Revision = None,
    moshi_weight: o.MoshiWeight = None,
    mimi_weight: o.MimiWeight = None,
    tokenizer: o.TokenizerFile = None,
    device: Device = None,
    dtype: DtypeName = None,
    quantize: QuantizeOption = None,
    html: c.Html = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Run the goldens' calls again, show what differs and, with --yes, make that the goldens.

    Goldens that no row of the manifest names are removed, rows without a golden get one. Exit 4 if --yes is wanted.
    """
    configure(log_level, quiet)
    from personaplex.cli.progress import BatchObserver
    from personaplex.core.weights.model import Overrides
    from personaplex.runs.goldens.again import Rerun
    from personaplex.runs.goldens.checking import Check, Held, held_again

    overrides = Overrides(moshi_weight, mimi_weight, tokenizer)
    rerun = Rerun(model, revision, overrides, device, dtype, quantize, slots, output_dir, tuple(sys.argv))
    check, observer = Check(Level.samples, Tolerances(), allow_unused=False), BatchObserver(not quiet)
    with held_again(goldens, rerun, check, observer) as held:
        if not isinstance(held, Held):
            raise typer.Exit(ended(held.counts, held.stopped, observer.interrupted))
        report(held.comparison, Reports(None, html, False, as_json))
        code = _updated(held, yes, notice if as_json else result)  # stdout is JSON then
    raise typer.Exit(code)


def _updated(held: "Held", yes: bool, tell: Callable[[str], None]) -> int:
    """Write a new run's answers over goldens, with `yes`, and tell what came of it; returns the exit code."""
    for name, failure in held.failures.items():
        log.error("%s: %s", name, failure)
    if held.failures:
        tell(f"{plural(len(held.failures), 'call')} can't be run: no golden was written")
        return 1
    changed = held.changed
    if not changed:
        unmet = any(not one.passed for item in held.comparison.items for one in item.expectations)
        tell("all goldens are up to date" + ("; what they expect stays unmet" if unmet else ""))
        return DIFFERENT if unmet else 0
    if not yes:
        tell(f"{plural(len(changed), 'golden')} would be rewritten; add --yes to do so")
        return DIFFERENT
    held.rewrite(changed)
    tell(f"updated {plural(len(changed), 'golden')} in {held.goldens.folder}")
    return 0
