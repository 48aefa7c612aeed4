"""`personaplex page`: a whole run to look at and listen to in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.commands.measure import Recordings, watching
from personaplex.cli.console import LogLevel, configure, log, summary
from personaplex.core.faults import shown

EXAMPLE = "Example: personaplex page answers, and open answers/page/index.html"


def page(
    run: Annotated[Path, typer.Argument(help="A folder that batch or talk wrote to, or one transcript.")],
    output: Annotated[
        Path | None,
        o.option(
            "--output",
            "-o",
            panel=o.OUTPUT,
            show_default="page, in the run's folder",
            help="A folder; or a file that ends in .html, which holds all sound itself.",
        ),
    ] = None,
    recordings: Recordings = None,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Make a page of all calls of a run: a list to sort and filter, and each call with sound, words and events.

    It works from a disk, without a network. A folder links to the WAVs where they lie, and loads a call when it is
    shown, so it suits thousands of calls; a single file is one to send.
    """
    configure(log_level, quiet)
    from personaplex.runs.page.writing import INDEX, write_page

    place = output or (run if run.is_dir() else run.parent) / "page"
    with watching(not quiet) as watch:
        made = write_page(run, place, recordings, watch)
    for name, error in made.failed.items():
        log.error("%s", shown(f"{name}: can't be shown: {error.what}; {error.mend}"))
    summary(str(place if place.suffix.lower() == ".html" else place / INDEX))
    raise typer.Exit(1 if made.failed else 0)
