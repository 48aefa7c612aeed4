"""Which items of a batch are done already, which are to do."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from personaplex.cli.batch import BatchRequest, Existing
from personaplex.cli.loading import LocatedModel, pick_device
from personaplex.cli.options import Dtype
from personaplex.cli.planning import PlannedItem
from personaplex.core.errors import UsageError
from personaplex.core.noise import LAYOUT
from personaplex.core.outputs import part_block
from personaplex.core.results import read_results
from personaplex.core.resume import finished
from personaplex.core.sources import in_shard
from personaplex.voices.catalogue import find

Document = dict[str, Any]


@dataclass(frozen=True)
class Todo:
    """A run's share of the items: those to run, and those that are done, with their transcripts."""

    run: list[PlannedItem]
    done: list[tuple[PlannedItem, Document]]


def choose_items(planned: Sequence[PlannedItem], request: BatchRequest, model: LocatedModel | None) -> Todo:
    """Split this shard's items; `model` None (a dry run) leaves out what only a model at hand can tell.

    Raises UsageError when outputs exist and `--existing error` forbids it.
    """
    mine = [item for item in planned if in_shard(item.item, *request.shard)]
    if request.retry_failed:
        results = read_results(request.source.output)
        mine = [item for item in mine if results.get(item.item.id, {}).get("status") == "failed"]
    if request.existing is Existing.error:
        for item in mine:
            if item.paths.json.exists() or item.paths.wav.exists():
                mend = "choose another folder, or --existing skip or overwrite"
                raise UsageError(f"{item.item.where}: its outputs are there: {item.paths.wav}", mend)
    if request.existing is not Existing.skip:
        return Todo(mine, [])
    voice_sha256 = _voice_hashes(request, model)
    todo = Todo([], [])
    for item in mine:
        document = _finished(item, request, model, voice_sha256)
        if document is None:
            todo.run.append(item)
        else:
            todo.done.append((item, document))
    return todo


def _finished(
    item: PlannedItem, request: BatchRequest, model: LocatedModel | None, voice_sha256: Callable[[str], str | None]
) -> Document | None:
    if not item.paths.json.is_file():
        return None
    expected = _expected(item, request, voice_sha256(item.voice))
    if model is not None:
        expected["model"] = {"weights_sha256": model.weights_sha256}
    return finished(item.paths, request.outputs, expected, item.item.path)


def _voice_hashes(request: BatchRequest, model: LocatedModel | None) -> Callable[[str], str | None]:
    """SHA-256 of a voice's file, each file once; None for one that can't be had without the model."""

    @cache
    def digest(voice: str) -> str | None:
        if model is None and not Path(voice).is_file():
            return None
        path = Path(voice) if model is None else find(voice, request.source.voice_folder, model.voices_folder)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return digest


def _expected(item: PlannedItem, request: BatchRequest, voice_sha256: str | None) -> dict[str, Any]:
    """What the transcript of a finished item says; see `personaplex.core.resume`."""
    row, outputs = item.item.row, request.outputs
    engine = {"device": pick_device(request.model.device).type}
    if request.model.dtype is not Dtype.auto:
        engine["dtype"] = request.model.dtype.value
    return {
        "id": item.item.id,
        "input": {"channel": item.channel, "part": None, **part_block(row.offset, row.duration)},
        "output": {"sample_rate": outputs.rate, "subtype": outputs.subtype, "align": request.align.value},
        "prompt": {"text": item.text.strip()} | ({"voice_sha256": voice_sha256} if voice_sha256 else {}),
        "sampling": {"seed": item.seed, **asdict(request.sampling), "noise": LAYOUT},
        "engine": engine,
    }
