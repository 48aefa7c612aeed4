"""Goldens made of a batch's answers, and of its `run.json` what it takes to run them again."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from personaplex.compare import goldens as g
from personaplex.compare.document import answer
from personaplex.compare.recorded import read_run
from personaplex.core.answers.outputs import part_block
from personaplex.core.answers.resume import agrees
from personaplex.core.corpus.raw import STDIN
from personaplex.core.corpus.results import RUN
from personaplex.core.corpus.sources import Product
from personaplex.core.errors import UsageError
from personaplex.core.storage.urls import is_url
from personaplex.runs.planning.plan import plan_items
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import SourceOptions
from personaplex.runs.settings import CallSettings, ModelSettings, RunRecord, read_record
from personaplex.samples import tiny

_MEND_STORED = "goldens need calls on this machine: copy them here, and run the batch from there"


@dataclass(frozen=True)
class RecordedGoldens:
    """How many of the `planned` items have a golden now, and how many of those hold no audio tokens."""

    planned: int
    recorded: int
    textual: int


def record_goldens(run: Path, folder: Path, audio: bool) -> RecordedGoldens:
    """Make goldens of a batch's answers; raises UsageError, and InputError for what can't be written."""
    record = read_record(run)
    if (folder / g.SETTINGS).exists():
        mend = "bring it up to date with `personaplex regress update`, or choose another folder"
        raise UsageError(f"{folder}: holds goldens already", mend)
    if (folder / g.ITEMS).is_dir() and any((folder / g.ITEMS).iterdir()):
        raise UsageError(f"{folder / g.ITEMS}: is not empty", "remove what a broken-off record left, or choose another")
    found = read_run(run)
    planned = {item.item.id: item for item in planned_again(run, record)}
    answered = {name: found[name] for name in planned if name in found and found[name].document is not None}
    if not answered:
        raise UsageError(f"{run}: holds no answers", "name a folder that `personaplex batch` wrote to")
    for name, item in answered.items():
        if not agrees(answer(item), expected_answer(planned[name], record)):
            raise UsageError(f"{run}: {name} was made by another run than that of {RUN}", "run the batch again")
    documents = [g.write_golden(folder, item, audio) for item in answered.values()]
    g.write_manifest(folder, [golden_row(planned[name], folder) for name in answered])
    g.write_settings(folder, golden_document(golden_settings(record, folder)))
    return RecordedGoldens(len(planned), len(documents), sum("tokens" not in document for document in documents))


def planned_again(folder: Path, record: RunRecord) -> list[PlannedItem]:
    """The items of the batch in `folder`, from its source, which must still be there; raises UsageError."""
    base, product = Path(record.volatile.folder), record.product
    if record.source == STDIN:
        mend = "save the manifest in a file, and run the batch from that"
        raise UsageError(f"{folder / RUN}: the calls came from standard input, which can't be read again", mend)
    if is_url(record.source):
        raise UsageError(f"{folder / RUN}: the calls came from {record.source}", _MEND_STORED)
    voices = tuple(_based(voice, base) for voice in product.voices)
    source = SourceOptions(
        source=str(base / record.source),
        output=folder,
        pattern=record.glob,
        product=Product(voices, product.roles, product.seeds),
        voice=None if record.voice_prompt is None else _based(record.voice_prompt, base),
        voice_folder=None if record.voice_prompt_dir is None else base / record.voice_prompt_dir,
        text=record.text_prompt,
        channel=record.channel,
        seed=record.seed,
        mix=record.output.mix,
    )
    planned = plan_items(source, record.output.options).items
    for item in planned:
        if item.item.stored is not None:
            raise UsageError(f"{item.item.where}: the call is {item.item.stored}", _MEND_STORED)
    return planned


def _based(voice: str, base: Path) -> str:
    """A voice as the run's own folder has it: a file's path from here, or a name."""
    return str(base / voice) if (base / voice).is_file() else voice


def expected_answer(planned: PlannedItem, settings: CallSettings) -> dict[str, Any]:
    """What an item's transcript says if the run of these settings made it; see `core.answers.resume.agrees`."""
    row, output, engine = planned.item.row, settings.output, settings.engine
    return {
        "input": {"channel": planned.channel, "part": None, **part_block(row.offset, row.duration)},
        "output": {"subtype": output.subtype, "sample_rate": output.rate, "align": settings.align},
        "prompt": {"voice": Path(planned.voice).stem, "text": planned.text.strip()},
        "sampling": {**asdict(settings.sampling), "seed": planned.seed},
        "model": {"weights_sha256": settings.model.weights_sha256},
        "engine": {"device": engine.device, "dtype": engine.dtype, "quantize": engine.quantize},
    }


def golden_row(planned: PlannedItem, goldens: Path) -> dict[str, Any]:
    """The manifest row that runs an item as it was run, its paths relative to the goldens' folder."""
    row = planned.item.row
    fields = {
        "audio_filepath": _relative(planned.item.path, goldens),
        "voice_prompt": _relative(Path(planned.voice), goldens) if Path(planned.voice).is_file() else planned.voice,
        "text_prompt": planned.text.strip(),
        "seed": planned.seed,
        "channel": planned.channel,
        "offset": row.offset or None,
        "duration": row.duration,
        "expect": row.asked,
    }
    return {"id": planned.item.id} | {name: value for name, value in fields.items() if value is not None}


def golden_settings(record: RunRecord, goldens: Path) -> CallSettings:
    """What goldens keep of `run.json`: what every call was run with, its paths relative to the goldens' folder."""
    base, options = Path(record.volatile.folder), record.model_options
    is_folder = options.model != tiny.NAME and (base / options.model).is_dir()
    is_hub = not is_folder and options.model != tiny.NAME

    def moved(path: str | None) -> str | None:
        return None if path is None else _relative(base / path, goldens)

    return CallSettings(
        sampling=record.sampling,
        align=record.align,
        long_audio=record.long_audio,
        output=record.output,
        model=record.model,
        model_options=ModelSettings(
            model=_relative(base / options.model, goldens) if is_folder else options.model,
            revision=(record.model.revision if is_hub else None) or options.revision,  # a hub's commit
            moshi_weight=moved(options.moshi_weight),
            mimi_weight=moved(options.mimi_weight),
            tokenizer=moved(options.tokenizer),
        ),
        engine=record.engine,
    )


def golden_document(settings: CallSettings) -> dict[str, Any]:
    """`goldens.json` of these settings, its keys in the order that it has always had."""
    document = settings.document
    return document | {"model_options": document.pop("model_options")}


def _relative(path: Path, folder: Path) -> str:
    # Between real places: `..` leads up from there, whatever links the user came by.
    place = Path(os.path.realpath(path.parent), path.name)
    return Path(os.path.relpath(place, os.path.realpath(folder))).as_posix()
