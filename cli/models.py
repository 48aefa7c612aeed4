"""`personaplex models`: shapes, the memory they need, and downloads."""

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, result

if TYPE_CHECKING:
    from personaplex.core.memory import ModelSize

app = typer.Typer(
    help="Known models: what they are made of, and downloads.",
    epilog="Example: personaplex models info tiny",
    no_args_is_help=True,
)

Name = Annotated[
    str | None, typer.Argument(show_default="the published 7B", help="Hub id, directory, or packaged model.")
]


@app.callback()
def models() -> None:
    """Known models: what they are made of, and downloads."""


@app.command("info", epilog="Example: personaplex models info --slots 16 --seconds 120")
def info(
    name: Name = None,
    slots: Annotated[int, o.option("--slots", panel=o.INPUT, min=1, help="Calls at a time.")] = 1,
    seconds: Annotated[
        float,
        o.option("--seconds", panel=o.INPUT, min=0.08, max=86_400, help="The longest call, its prompt included."),
    ] = 240.0,
    dtype: o.DtypeName = o.Dtype.auto,
    tensors: Annotated[bool, o.option("--tensors", panel=o.OUTPUT, help="List every tensor by itself.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Show a model's tensors, parameters and the memory that it needs. Nothing is loaded or downloaded."""
    from personaplex.cli.known import known_model
    from personaplex.core.config import FRAME_RATE
    from personaplex.core.layout import lm_layout, mimi_layout
    from personaplex.core.memory import model_size

    known = known_model(name)
    model, config = known.name, known.config
    size = model_size(config, slots, round(seconds * FRAME_RATE), known.width(dtype))
    shapes = {
        f"{part}.{key}": place.shape
        for part, layout in (("lm", lm_layout(config.lm)), ("mimi", mimi_layout(config.mimi)))
        for key, place in layout.items()
        if not place.optional
    }
    if as_json:
        result(json.dumps({"model": model, **size.as_dict(), "tensors": shapes}, indent=2))
        return
    for line in _tensor_lines(shapes, tensors):
        result(line)
    for line in _summary(model, size, slots, seconds):
        result(line)


def _tensor_lines(shapes: dict[str, tuple[int, ...]], singly: bool) -> list[str]:
    """A line a tensor, or one for all that differ in their numbers only."""
    if singly:
        return [f"{name}  {list(shape)}" for name, shape in shapes.items()]
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, shape in shapes.items():
        groups.setdefault((re.sub(r"\.\d+(?=\.)", ".*", name), shape), []).append(name)
    width = max(len(pattern) for pattern, _ in groups)
    return [f"{pattern:<{width}}  {len(names):>4} × {list(shape)}" for (pattern, shape), names in groups.items()]


def _summary(model: str, size: "ModelSize", slots: int, seconds: float) -> list[str]:
    gib = 2**30
    return [
        "",
        f"model       {model}",
        f"parameters  language model {size.lm_parameters:,} ({size.lm_run:,} of them run), codec {size.mimi:,}",
        f"weights     {size.weights_bytes / gib:.2f} GiB",
        f"cache       {size.cache_bytes / gib:.2f} GiB for {slots} calls of {seconds:g} s ({size.positions} positions)",
        f"in all      {size.total_bytes / gib:.2f} GiB, and some for activations",
    ]


@app.command("fetch", epilog="Example: personaplex models fetch nvidia/personaplex-7b-v1 --revision main")
def fetch(
    name: Name = None,
    revision: o.Revision = None,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
) -> None:
    """Download a model's files and voices to the Hugging Face cache, and print where they lie."""
    configure(log_level, quiet)
    from personaplex.core import hub
    from personaplex.core.model import HUB_MODEL, VOICES, locate

    repo = name or HUB_MODEL
    files = locate(repo, revision)
    for path in (files.lm, files.mimi, files.tokenizer):
        result(str(path))
    if repo == HUB_MODEL:
        result(str(hub.fetch(repo, VOICES, files.revision)))
