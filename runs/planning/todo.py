"""Which items of a batch are done already, which are to do."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from personaplex.core.answers.outputs import part_block
from personaplex.core.answers.resume import finished
from personaplex.core.answers.transcript import SCHEMA
from personaplex.core.corpus.items import Refused
from personaplex.core.corpus.results import ResultRow, done_row, read_results
from personaplex.core.corpus.sources import in_shard
from personaplex.core.errors import UsageError
from personaplex.core.sampling.noise import LAYOUT
from personaplex.core.weights.checkpoint import holds_int8, open_checkpoint
from personaplex.core.weights.filling import stored_dtype
from personaplex.runs.choices import Dtype, Existing, Quantize
from personaplex.runs.models.located import LocatedModel, ModelOptions, pick_device
from personaplex.runs.planning.planned import Planned, PlannedItem
from personaplex.runs.planning.request import BatchRequest
from personaplex.voices.catalogue import find


@dataclass(frozen=True)
class Todo:
    """A run's share of the items: to run, done before with their rows of the results, and those that can't be run."""

    run: list[PlannedItem]
    done: list[tuple[PlannedItem, ResultRow]]
    refused: list[Refused]

    @property
    def all(self) -> list[PlannedItem]:
        """Those that may have files."""
        return [*self.run, *(item for item, _ in self.done)]


def choose_items(planned: Planned, request: BatchRequest, model: LocatedModel | None) -> Todo:
    """Split this shard's items; `model` None (a dry run) leaves out what only a model at hand can tell.

    Raises UsageError when outputs exist and `--existing error` forbids it.
    """
    mine = [item for item in planned.items if in_shard(item.item, *request.shard)]
    refused = [one for one in planned.refused if in_shard(one, *request.shard)]
    if request.retry_failed:
        results = read_results(request.source.output)
        failed = {name for name, row in results.items() if row.get("status") == "failed"}
        mine = [item for item in mine if item.item.id in failed]
        refused = [one for one in refused if one.id in failed]
    if request.existing is Existing.error:
        for item in mine:
            if item.paths.json.exists() or item.paths.wav.exists():
                mend = "choose another folder, or --existing skip or overwrite"
                raise UsageError(f"{item.item.where}: its outputs are there: {item.paths.wav}", mend)
    if request.existing is not Existing.skip:
        return Todo(mine, [], refused)
    voice_sha256 = voice_hashes(request.source.voice_folder, model)
    run_block = cache(partial(engine_block, request.model, request.slots, model))
    todo = Todo([], [], refused)
    for item in mine:
        document = None
        if item.paths.json.is_file():
            expected = _item_block(item, request, voice_sha256(item.voice)) | run_block()
            document = finished(item.paths, request.outputs, expected, item.item.audio)
        if document is None:
            todo.run.append(item)
        else:
            todo.done.append((item, done_row(item.item, document)))
    return todo


def voice_hashes(folder: Path | None, model: LocatedModel | None) -> Callable[[str], str | None]:
    """SHA-256 of a voice's file, each file once; None for one that can't be had without the model."""

    @cache
    def digest(voice: str) -> str | None:
        if model is None and not Path(voice).is_file():
            return None
        try:
            path = Path(voice) if model is None else find(voice, folder, model.voices_folder)
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return "unreadable"

    return digest


def _item_block(item: PlannedItem, request: BatchRequest, voice_sha256: str | None) -> dict[str, Any]:
    """What the transcript of a finished item says of it; see `personaplex.core.answers.resume`."""
    row, outputs = item.item.row, request.outputs
    return {
        "schema": SCHEMA,
        "id": item.item.id,
        "input": {"channel": item.channel, "part": None, **part_block(row.offset, row.duration)},
        "output": {"sample_rate": outputs.rate, "subtype": outputs.subtype, "align": request.align.value},
        "prompt": {"text": item.text.strip()} | ({} if voice_sha256 is None else {"voice_sha256": voice_sha256}),
        "sampling": {"seed": item.seed, **asdict(request.sampling), "noise": LAYOUT},
    }


def engine_block(options: ModelOptions, slots: int | None, model: LocatedModel | None) -> dict[str, Any]:
    """What the transcripts of all finished items say of the model, as far as it can be told without loading it."""
    device = pick_device(options.device).type
    engine: dict[str, Any] = {"device": device, "pace": "batch"}
    invariant = options.batch_invariant
    if slots is not None and device != "cpu" and not invariant:  # else bits don't depend on them
        engine["slots"] = slots
    if device == "cuda":
        engine["products"] = "triton" if invariant else None
    stored = None if model is None or model.files is None else open_checkpoint(model.files.lm)
    if options.quantize is Quantize.int8 or (stored is not None and holds_int8(stored)):
        engine["quantize"] = "int8"
    elif model is not None:
        engine["quantize"] = None
    if options.dtype is not Dtype.auto:
        engine["dtype"] = options.dtype.value
    elif model is not None:
        dtype = torch.float32 if stored is None else stored_dtype(stored)
        engine["dtype"] = str(dtype).removeprefix("torch.")
    return {"engine": engine} | ({} if model is None else {"model": model.hashes})
