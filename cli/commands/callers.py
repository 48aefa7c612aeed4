"""`personaplex callers`: recordings of callers, from scripts."""

import json
from pathlib import Path
from typing import Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, log, result, summary
from personaplex.core.errors import InputError
from personaplex.core.faults import shown

EXAMPLE = (
    "Example: personaplex callers scripts.jsonl -o callers/, then personaplex batch callers/manifest.jsonl -o answers/"
)


def callers(
    source: Annotated[
        str, typer.Argument(help="Scripts: a .jsonl, a .txt, a folder of .txt, or - for JSONL on stdin.")
    ],
    output_dir: Annotated[Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="Folder for the recordings.")],
    synthesiser: Annotated[
        str,
        o.option(
            "--synthesiser", panel=o.INPUT, help="auto, espeak-ng, flite, or a command with {text}, {wav}, {voice}."
        ),
    ] = "auto",
    voice: Annotated[
        str | None, o.option("--voice", panel=o.INPUT, help="The synthesiser's voice where a script names none.")
    ] = None,
    lead_in: Annotated[
        float, o.option("--lead-in", panel=o.INPUT, min=0, max=600, help="Seconds of silence before the first turn.")
    ] = 3.0,
    pause: Annotated[
        float,
        o.option("--pause", panel=o.INPUT, min=0, max=600, help="Seconds between turns, for the agent to answer."),
    ] = 5.0,
    tail: Annotated[
        float, o.option("--tail", panel=o.INPUT, min=0, max=600, help="Seconds of silence after the last turn.")
    ] = 5.0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
    config: o.Config = None,
) -> None:
    """Make callers' recordings from scripts, with a manifest for `batch` that knows when every turn is said.

    A synthesiser on this machine speaks them. Each text is spoken once and kept in the cache.
    """
    configure(log_level, quiet)
    from personaplex.callers.making import Pauses, check_folder, make, write_manifest
    from personaplex.callers.scripts import read_scripts
    from personaplex.callers.speaking import synthesiser as chosen

    speaker = chosen(synthesiser, voice)
    found = read_scripts(source)
    for warning in found.warnings:
        log.warning("%s", warning)
    check_folder(output_dir, found.good)
    failed = len(found.faults)
    for fault in found.faults:
        log.error("%s", shown(fault))
    rows = []
    for one in found.good:
        try:
            rows.append(make(one, speaker, Pauses(lead_in, pause, tail), output_dir))
        except InputError as error:
            log.error("%s", shown(f"{one.where}: {error.what}"))
            failed += 1
    manifest = write_manifest(output_dir, rows) if rows else None
    if as_json:
        told = {"made": len(rows), "failed": failed, "manifest": None if manifest is None else str(manifest)}
        result(json.dumps(told, ensure_ascii=False))
    else:
        summary(f"made    {len(rows):,}")
        summary(f"failed  {failed:,}")
        if manifest is not None:
            summary(f"run them with: personaplex batch {manifest} -o answers")
    raise typer.Exit(1 if failed else 0)
