"""`personaplex models`: which there are, their shapes and memory, downloads, and whether their files are whole."""

import json
import logging
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, notice, result, summary
from personaplex.core.errors import ModelError, UsageError
from personaplex.runs.choices import Dtype, Quantize

if TYPE_CHECKING:
    from personaplex.core.machine.memory import ModelSize
    from personaplex.core.weights.verify import CheckedFile

log = logging.getLogger(__name__)

app = typer.Typer(
    help="Known models: where they lie, what they are made of, downloads and checks.",
    epilog="Example: personaplex models list",
    no_args_is_help=True,
)

Name = Annotated[
    str | None, typer.Argument(show_default="the published 7B", help="Hub id, directory, or packaged model.")
]


@app.callback()
def models() -> None:
    """Known models: where they lie, what they are made of, downloads and checks."""


@app.command("info", epilog="Example: personaplex models info --slots 16 --seconds 120")
def info(
    name: Name = None,
    slots: Annotated[int, o.option("--slots", panel=o.INPUT, min=1, help="Calls at a time.")] = 1,
    seconds: Annotated[
        float,
        o.option("--seconds", panel=o.INPUT, min=0.08, max=86_400, help="The longest call, its prompt included."),
    ] = 240.0,
    dtype: o.DtypeName = Dtype.auto,
    quantize: o.QuantizeOption = Quantize.none,
    tensors: Annotated[bool, o.option("--tensors", panel=o.OUTPUT, help="List every tensor by itself.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Show a model's tensors, parameters and the memory that it needs. Nothing is loaded or downloaded."""
    from personaplex.core.config import FRAME_RATE
    from personaplex.core.weights.layout import lm_layout, mimi_layout
    from personaplex.core.weights.published import TERMS
    from personaplex.runs.models.known import known_model

    known = known_model(name)
    model, config = known.name, known.config
    size = known.size(slots, round(seconds * FRAME_RATE), dtype, quantize)
    shapes = {
        f"{part}.{key}": place.shape
        for part, layout in (("lm", lm_layout(config.lm)), ("mimi", mimi_layout(config.mimi)))
        for key, place in layout.items()
        if not place.optional
    }
    origin = config.quantized
    if as_json:
        licence = TERMS[model].licence if model in TERMS else None
        about = {"licence": licence, "quantized": origin and asdict(origin), **size.as_dict()}
        result(json.dumps({"model": model, **about, "tensors": shapes}, indent=2))
        return
    for line in _tensor_lines(shapes, tensors):
        result(line)
    for line in _summary(model, size, slots, seconds):
        result(line)
    if origin is not None:
        result(f"made from   {origin.name} {origin.revision}".rstrip() + f", weights_sha256 {origin.weights_sha256}")


@app.command("quantize", epilog="Example: personaplex models quantize nvidia/personaplex-7b-v1 -o personaplex-7b-int8")
def quantize(
    source: Annotated[str, typer.Argument(help="Hub id, or directory.")],
    output_dir: Annotated[
        Path, o.option("--output-dir", "-o", panel=o.OUTPUT, help="Folder for the new model: new, or empty.")
    ],
    revision: o.Revision = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
) -> None:
    """Write a model directory with the large layers in int8, which takes some 60 % of the memory and of the disk.

    It computes what `--quantize int8` computes with the source, and loads without it. One tensor at a time is held.
    """
    configure(log_level, quiet)
    from personaplex.core.weights.quantizing import quantize as write
    from personaplex.runs.models.located import with_voices
    from personaplex.samples import tiny

    if source == tiny.NAME:
        raise UsageError("tiny is made in memory: there is nothing to quantise", "run it with --quantize int8")
    files = with_voices(source, revision)
    size = write(files, output_dir, _counted)
    if as_json:
        result(json.dumps({"model": str(output_dir), "source": files.name, "lm_bytes": size}, indent=2))
    else:
        summary(f"{output_dir}: the language model takes {size / 2**30:.2f} GiB")


def _counted(done: int, of: int) -> None:
    """Tell now and then how far it is."""
    if done == of or done % max(1, of // 4) == 0:
        notice(f"{done} of {of} tensors written")


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
    from personaplex.core.weights.published import TERMS

    gib, terms = 2**30, TERMS.get(model)
    gated = " (gated: accept it on the model's page)" if terms and terms.gated else ""
    licence = [f"licence     {terms.licence}{gated}"] if terms else []
    return [
        "",
        f"model       {model}",
        *licence,
        f"parameters  language model {size.lm_parameters:,} ({size.lm_run:,} of them run), codec {size.mimi:,}",
        f"weights     {size.weights_bytes / gib:.2f} GiB",
        f"cache       {size.cache_bytes / gib:.2f} GiB for {slots} calls of {seconds:g} s ({size.positions} positions)",
        f"in all      {size.total_bytes / gib:.2f} GiB, and some for activations",
    ]


@app.command("fetch", epilog="Example: personaplex models fetch nvidia/personaplex-7b-v1 --revision main")
def fetch(
    name: Name = None,
    revision: o.Revision = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
) -> None:
    """Download a model's files and voices to the Hugging Face cache, and print where each lies.

    Progress is shown on a terminal. Run again after a break, it keeps the files that are whole and downloads the rest.
    """
    configure(log_level, quiet)
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from personaplex.core.weights.published import HUB_MODEL, warning_of_terms
    from personaplex.samples.catalog import model_names

    if quiet:
        disable_progress_bars()
    model = name or HUB_MODEL
    if model in model_names():
        raise UsageError(f"{model} comes with the package: there is nothing to fetch", f"use it by --model {model}")
    if told := warning_of_terms(model):
        log.warning(told)
    commit, files = _fetched(model, revision)
    if as_json:
        places = {part: [str(path) for path in paths] for part, paths in files.items()}
        result(json.dumps({"model": model, "revision": commit, "files": places}, indent=2))
        return
    for paths in files.values():
        for path in paths:
            summary(str(path))


def _fetched(model: str, revision: str | None) -> tuple[str, dict[str, list[Path]]]:
    """The commit, and where each part's files lie; raises ModelError."""
    from personaplex.core.weights import hub
    from personaplex.core.weights.checkpoint import shard_paths
    from personaplex.core.weights.model import locate
    from personaplex.core.weights.published import VOICES, has_voices

    located = locate(model, revision)
    lm = located.lm
    files = {
        "lm": [lm, *(shard_paths(lm) if lm.name.endswith(".index.json") else [])],
        "mimi": [located.mimi],
        "tokenizer": [located.tokenizer],
    }
    if has_voices(model):
        files["voices"] = [hub.fetch(model, VOICES, located.revision)]
    elif located.voices:
        files["voices"] = [located.voices]
    return located.revision, files


@app.command("list", epilog="Example: personaplex models list --json")
def list_models(as_json: o.AsJson = False) -> None:
    """List the known models, and where those lie that are on this machine. The network is not asked."""
    rows = _rows()
    if as_json:
        result(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        columns = (f"{row['name']:<{width}}", f"{row['parameters']:>13,}", f"{row['dtype']:<8}", f"{row['state']:<10}")
        line = "  ".join([*columns, f"{row['licence'] or '-':<42}", row["path"] or ""])
        result(line.rstrip())


def _rows() -> list[dict[str, Any]]:
    """Of each known model its parameters, codec included, stored type, licence, state and folder."""
    from personaplex.core.machine.memory import model_size
    from personaplex.core.weights.cached import cached_model
    from personaplex.core.weights.published import TERMS
    from personaplex.runs.models.known import CATALOGUE, known_model
    from personaplex.samples.catalog import model_folder, model_names

    rows = []
    for name in CATALOGUE:
        known, terms = known_model(name), TERMS.get(name)
        size = model_size(known.config, 1, 1, known.dtype.itemsize)
        state, folder = "packaged", model_folder(name) if name in model_names() else None
        if folder is None:
            cached = cached_model(name)
            state, folder = cached.presence, cached.folder
        rows.append(
            {
                "name": name,
                "parameters": size.lm_parameters + size.mimi,
                "dtype": str(known.dtype).removeprefix("torch."),
                "licence": terms.licence if terms else None,
                "gated": bool(terms and terms.gated),
                "state": state,
                "path": str(folder) if folder else None,
            }
        )
    return rows


@app.command("verify", epilog="Example: personaplex models verify ./my-model")
def verify(name: Name = None, revision: o.Revision = None, as_json: o.AsJson = False) -> None:
    """Check that a model's files are all there and whole, and its tensors of the right names and shapes.

    Reads every byte once; loads and downloads nothing. Exits 3 if a file is not as it should be.
    """
    import torch

    from personaplex.core.weights.published import HUB_MODEL
    from personaplex.core.weights.verify import verify as checks
    from personaplex.samples import tiny
    from personaplex.samples.catalog import placed

    model = name or HUB_MODEL
    if model == tiny.NAME:
        digest = tiny.load(torch.device("cpu")).weights_sha256
        document = {"model": model, "ok": True, "weights_sha256": digest, "files": []}
        result(
            json.dumps(document, indent=2) if as_json else f"ok     {model}: made in memory; weights_sha256 {digest}"
        )
        return
    files = []
    for file in checks(placed(model), revision):
        files.append(file)
        if not as_json:
            result(_report(file))
    wrong = [file for file in files if file.problem]
    if as_json:
        rows = [asdict(file) | {"path": str(file.path), "ok": not file.problem} for file in files]
        result(json.dumps({"model": model, "ok": not wrong, "files": rows}, indent=2))
    if wrong:
        first = wrong[0]
        what = f"{model}: {len(wrong)} of {len(files)} files are not as they should be"
        raise ModelError(f"{what}, the first {first.path.name}: {first.problem}", first.mend)


def _report(file: "CheckedFile") -> str:
    if not file.problem:
        return f"ok     {file.path}: {file.holds}, sha256 {file.sha256[:16]}…"
    return f"wrong  {file.path}: {file.problem}" + (f"; {file.mend}" if file.mend else "")
