"""A batch from what an earlier one recorded: from its `run.json` to goldens, and from goldens to a batch again."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from personaplex.cli import options as o
from personaplex.cli.batch import BatchRequest, Existing
from personaplex.cli.loading import ModelOptions, prompt_text
from personaplex.cli.offline import DEFAULT_SEED
from personaplex.cli.planning import PlannedItem, SourceOptions, plan_items
from personaplex.compare.goldens import MEND, SETTINGS
from personaplex.core.answers.outputs import OutputOptions, part_block
from personaplex.core.corpus.listing import STDIN
from personaplex.core.corpus.results import RUN
from personaplex.core.corpus.results import SCHEMA as RUN_SCHEMA
from personaplex.core.corpus.sources import Product
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Overrides
from personaplex.samples import tiny

_FILES = ("moshi_weight", "mimi_weight", "tokenizer")
_SAMPLING = TypeAdapter(Sampling)


@dataclass(frozen=True)
class Rerun:
    """How goldens are run again; what is None is as recorded. Outputs go to `output`, or are thrown away."""

    model: str | None
    revision: str | None
    overrides: Overrides
    device: str | None
    dtype: o.Dtype | None
    slots: int | None
    output: Path | None
    progress: bool


class _Engine(BaseModel):
    device: str
    dtype: o.Dtype
    threads: int | None = Field(ge=1, le=1024)
    slots: int | None = Field(ge=1)


class _Output(BaseModel):
    subtype: str
    rate: int
    formats: list[str]
    tokens: bool
    mix: bool


class _ModelOptions(BaseModel):
    model: str
    revision: str | None
    moshi_weight: str | None
    mimi_weight: str | None
    tokenizer: str | None


class _Settings(BaseModel):
    """What a batch is run again with; the rest of `goldens.json` is there to be read."""

    sampling: dict[str, float | bool]
    align: o.AlignOption
    long_audio: o.LongAudio
    output: _Output
    engine: _Engine
    model_options: _ModelOptions


class _Product(BaseModel):
    voices: list[str]
    roles: list[str]
    seeds: list[int]


class _Model(BaseModel):
    revision: str
    weights_sha256: str


class _Volatile(BaseModel):
    folder: str


class _Run(_Settings):
    """What goldens are made from of `run.json`."""

    source: str
    glob: str | None
    product: _Product
    voice_prompt: str | None
    voice_prompt_dir: str | None
    text_prompt: str
    channel: str
    seed: int
    model: _Model
    volatile: _Volatile


def read_settings(folder: Path) -> dict[str, Any]:
    """A batch's `run.json`; raises UsageError."""
    path = folder / RUN
    try:
        settings = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a folder that `personaplex batch` wrote to") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not whole JSON ({error})", "run the batch again") from error
    mend = "run the batch again with this version"
    if not isinstance(settings, dict) or settings.get("schema") != RUN_SCHEMA:
        raise UsageError(f"{path}: its schema is not {RUN_SCHEMA}", mend)
    try:
        _Run.model_validate(settings)
    except ValidationError as error:
        raise UsageError(f"{path}: can't be used: {first_faults(field_faults(error))}", mend) from error
    return settings


def planned_again(folder: Path, settings: Mapping[str, Any]) -> list[PlannedItem]:
    """The items of the batch in `folder`, from its source, which must still be there; raises UsageError."""
    base = Path(settings["volatile"]["folder"])
    if settings["source"] == STDIN:
        mend = "save the manifest in a file, and run the batch from that"
        raise UsageError(f"{folder / RUN}: the calls came from standard input, which can't be read again", mend)
    product = {name: tuple(values) for name, values in settings["product"].items()}
    product["voices"] = tuple(_based(voice, base) for voice in product["voices"])
    voice, voices = settings["voice_prompt"], settings["voice_prompt_dir"]
    source = SourceOptions(
        source=str(base / settings["source"]),
        output=folder,
        pattern=settings["glob"],
        product=Product(**product),
        voice=None if voice is None else _based(voice, base),
        voice_folder=None if voices is None else base / voices,
        text=settings["text_prompt"],
        channel=settings["channel"],
        seed=settings["seed"],
        mix=settings["output"]["mix"],
    )
    return plan_items(source, _outputs(_Output.model_validate(settings["output"]))).items


def _based(voice: str, base: Path) -> str:
    """A voice as the run's own folder has it: a file's path from here, or a name."""
    return str(base / voice) if (base / voice).is_file() else voice


def expected_answer(planned: PlannedItem, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an item's transcript says if the run of these settings made it; see `core.answers.resume.agrees`."""
    row, output, engine = planned.item.row, settings["output"], settings["engine"]
    return {
        "input": {"channel": planned.channel, "part": None, **part_block(row.offset, row.duration)},
        "output": {"subtype": output["subtype"], "sample_rate": output["rate"], "align": settings["align"]},
        "prompt": {"voice": Path(planned.voice).stem, "text": planned.text.strip()},
        "sampling": {**settings["sampling"], "seed": planned.seed},
        "model": {"weights_sha256": settings["model"]["weights_sha256"]},
        "engine": {"device": engine["device"], "dtype": engine["dtype"]},
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


def golden_settings(settings: Mapping[str, Any], goldens: Path) -> dict[str, Any]:
    """What goldens keep of `run.json`: what every call was run with."""
    base, options = Path(settings["volatile"]["folder"]), dict(settings["model_options"])
    is_folder = options["model"] != tiny.NAME and (base / options["model"]).is_dir()
    for name in ("model", *_FILES) if is_folder else _FILES:
        if options[name] is not None:
            options[name] = _relative(base / options[name], goldens)
    if not is_folder and options["model"] != tiny.NAME:
        options["revision"] = settings["model"]["revision"] or options["revision"]  # a hub's commit
    kept = ("sampling", "align", "long_audio", "output", "model", "engine")
    return {name: settings[name] for name in kept} | {"model_options": options}


def _relative(path: Path, folder: Path) -> str:
    # Between real places: `..` leads up from there, whatever links the user came by.
    place = Path(os.path.realpath(path.parent), path.name)
    return Path(os.path.relpath(place, os.path.realpath(folder))).as_posix()


def batch_again(goldens: Path, manifest: Path, settings: Mapping[str, Any], rerun: Rerun, output: Path) -> BatchRequest:
    """The batch that runs goldens' calls into `output`; raises UsageError for settings that make no sense."""
    path, text = goldens / SETTINGS, prompt_text(None, None, None, [])  # of rows that were added by hand
    try:
        recorded = _Settings.model_validate(settings)
        sampling = _SAMPLING.validate_python(asdict(Sampling(**settings["sampling"])))
        outputs = _outputs(recorded.output)
    except ValidationError as error:
        raise UsageError(f"{path}: can't be used: {first_faults(field_faults(error))}", MEND) from error
    except TypeError as error:
        raise UsageError(f"{path}: can't be used: {error}", MEND) from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.what}", MEND) from error
    if (rerun.device or recorded.engine.device) == "cpu" and recorded.engine.threads is not None:
        torch.set_num_threads(recorded.engine.threads)  # by which a CPU's kernels round
    return BatchRequest(
        source=SourceOptions(str(manifest), output, None, Product(), None, None, text, "mix", DEFAULT_SEED, mix=False),
        outputs=OutputOptions(outputs.subtype, outputs.rate, tokens=True),
        sampling=sampling,
        align=recorded.align,
        model=_model(goldens, recorded, rerun),
        graphs=True,
        slots=rerun.slots or recorded.engine.slots,
        shard=(1, 1),
        existing=Existing.overwrite,
        max_failures=None,
        retry_failed=False,
        dry_run=False,
        long_audio=recorded.long_audio,
        as_json=False,
        progress=rerun.progress,
    )


def _outputs(output: _Output) -> OutputOptions:
    return OutputOptions(output.subtype, output.rate, tuple(output.formats), output.tokens)


def _model(goldens: Path, recorded: _Settings, rerun: Rerun) -> ModelOptions:
    """The recorded model, unless another is asked for; recorded paths are relative to the goldens' folder."""
    options, overrides = recorded.model_options, rerun.overrides
    name, revision = rerun.model, rerun.revision
    if name is None:
        name = str(goldens / options.model) if (goldens / options.model).is_dir() else options.model
        revision = revision or options.revision
        files = (options.moshi_weight, options.mimi_weight, options.tokenizer)
        kept = (None if file is None else goldens / file for file in files)
        given = (overrides.lm, overrides.mimi, overrides.tokenizer)
        overrides = Overrides(*(new or old for new, old in zip(given, kept, strict=True)))
    device, dtype = rerun.device or recorded.engine.device, rerun.dtype or recorded.engine.dtype
    return ModelOptions(name, None, revision, overrides, device, dtype, cpu_offload=False)
