"""`personaplex voices`: the catalogue."""

import json

import typer

from personaplex.cli import options as o
from personaplex.cli.console import result

app = typer.Typer(help="The voices that can be named.", epilog="Example: personaplex voices list", no_args_is_help=True)


@app.callback()
def voices() -> None:
    """The voices that can be named."""


@app.command("list", epilog="Example: personaplex voices list --json")
def list_voices(as_json: o.AsJson = False) -> None:
    """List the voices published with PersonaPlex-7B: name, sex and kind."""
    from dataclasses import asdict

    from personaplex.voices.catalogue import CATALOGUE

    if as_json:
        result(json.dumps([asdict(voice) for voice in CATALOGUE], indent=2))
        return
    for voice in CATALOGUE:
        result(f"{voice.name}  {voice.sex:<6}  {voice.kind}")
