"""`personaplex export`: a run as a data set of another tool."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, result, summary
from personaplex.core.faults import shown
from personaplex.runs.choices import DEFAULT_SEED

if TYPE_CHECKING:
    from personaplex.exports.export import Exported

EXAMPLE = "Example: personaplex export answers --to lhotse -o data --split train=0.8,dev=0.1,test=0.1"

_MOST_TOLD = 10


def export(
    run: Annotated[Path, typer.Argument(help="A folder of results that batch or talk wrote.")],
    to: Annotated[
        str,
        o.option(
            "--to",
            panel=o.OUTPUT,
            metavar="FORMAT",
            help="lhotse, lhotse-shar, nemo, webdataset, audiofolder, moshi-finetune, full-duplex-bench or audacity.",
        ),
    ],
    output_dir: Annotated[
        Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="The data set's folder, made anew.")
    ],
    split: Annotated[
        str | None,
        o.option("--split", panel=o.OUTPUT, metavar="SHARES", help="Such as train=0.8,dev=0.1,test=0.1, by caller."),
    ] = None,
    seed: Annotated[
        int, o.option("--seed", panel=o.OUTPUT, min=0, help="Decides which callers are in which split.")
    ] = DEFAULT_SEED,
    link: Annotated[
        bool, o.option("--link", panel=o.OUTPUT, help="Link to recordings and WAVs rather than copying them.")
    ] = False,
    callers: Annotated[
        Path | None,
        o.option(
            "--callers",
            panel=o.INPUT,
            exists=True,
            file_okay=False,
            show_default="the run's source",
            help="Folder that the callers' recordings are in now.",
        ),
    ] = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Write a run's calls as a data set for training, evaluation or an editor: both sides' sound, words and times.

    The folder appears whole, or not at all. Calls that failed in the run are left out and counted.
    """
    configure(log_level, quiet)
    from personaplex.exports.export import Request
    from personaplex.exports.export import export as write
    from personaplex.exports.splits import parse_splits

    shares = {} if split is None else parse_splits(split)
    exported = write(Request(run, to, output_dir, shares, seed, link, callers))
    for failed in exported.failed[:_MOST_TOLD]:
        log.warning("%s", shown(f"{failed.id}: left out, since it failed in the run: {failed.why}"))
    for missed in exported.left_out[:_MOST_TOLD]:
        log.error("%s", shown(f"{missed.id}: left out: {missed.why}"))
    for name in (name for name, count in exported.splits.items() if not count):
        log.warning("the split %s is empty: there are too few callers", name)
    _tell(exported, to, output_dir, as_json)
    raise typer.Exit(1 if exported.left_out else 0)


def _tell(exported: "Exported", to: str, output: Path, as_json: bool) -> None:
    if as_json:
        document = {
            "format": to,
            "output": str(output),
            "exported": exported.calls,
            "splits": {name or "all": count for name, count in exported.splits.items()},
            "failed": [{"id": one.id, "why": one.why} for one in exported.failed],
            "left_out": [{"id": one.id, "why": one.why} for one in exported.left_out],
        }
        result(json.dumps(document, indent=2, ensure_ascii=False))
        return
    summary(f"exported  {exported.calls:,} calls to {output} ({to})")
    for name, count in exported.splits.items():
        if name:
            summary(f"  {name:<8}{count:,}")
    if exported.failed:
        summary(f"failed    {len(exported.failed):,} in the run, and not in the data set")
    if exported.left_out:
        summary(f"left out  {len(exported.left_out):,}")
