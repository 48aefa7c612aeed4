"""What `run.json` holds: a batch's settings as one dataclass, written by the batch and read by those that repeat it.

Goldens keep the half of it that every call is run with.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from personaplex.core.answers.outputs import OutputOptions
from personaplex.core.answers.transcript import EngineInfo, ModelInfo
from personaplex.core.corpus.items import PassedOver
from personaplex.core.corpus.results import RUN, SCHEMA, write_run
from personaplex.core.corpus.sources import Product
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.files import check_schema, read_json
from personaplex.core.sampling.draw import Sampling
from personaplex.core.storage.urls import without_secrets
from personaplex.runs.choices import Alignment, Dtype, LongAudio
from personaplex.runs.models.located import ModelOptions
from personaplex.runs.planning.request import BatchRequest


@dataclass(frozen=True)
class OutputSettings:
    """What is written of a call, and how."""

    subtype: str
    rate: int
    formats: tuple[str, ...]
    tokens: bool
    mix: bool

    @property
    def options(self) -> OutputOptions:
        """As the writer takes it; raises UsageError for what can't be written."""
        return OutputOptions(self.subtype, self.rate, self.formats, self.tokens)


@dataclass(frozen=True)
class ModelSettings:
    """What finds the model again: `model` may be a folder, of which transcripts have the name alone."""

    model: str
    revision: str | None
    moshi_weight: str | None
    mimi_weight: str | None
    tokenizer: str | None


@dataclass(frozen=True)
class ModelIdentity:
    """Which weights ran; `recorded` is all that transcripts say of them."""

    revision: str
    weights_sha256: str
    recorded: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineSettings:
    """What the calls ran on, and can run on again; `recorded` is all that transcripts say of it."""

    device: str
    dtype: Dtype
    threads: Annotated[int, Field(ge=1, le=1024)] | None
    slots: Annotated[int, Field(ge=1)] | None
    quantize: Literal["int8"] | None = None
    recorded: Mapping[str, Any] = field(default_factory=dict)


def _with_all(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    # Another version may say more of an engine, or less: what it takes to run again is read, the rest kept as it is.
    return replace(read(given), recorded=given)


def _no_strangers(given: Any) -> Any:
    known = {known.name for known in fields(Sampling)}
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise PydanticCustomError("stranger", "there is no setting {name}", {"name": repr(name)})
    return given


@dataclass(frozen=True)
class CallSettings:
    """How every call of a run is run."""

    sampling: Annotated[Sampling, BeforeValidator(_no_strangers)]
    align: Alignment
    long_audio: LongAudio
    output: OutputSettings
    model: Annotated[ModelIdentity, WrapValidator(_with_all)]
    model_options: ModelSettings
    engine: Annotated[EngineSettings, WrapValidator(_with_all)]

    @property
    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"model": dict(self.model.recorded), "engine": dict(self.engine.recorded)}


@dataclass(frozen=True)
class SourceSettings:
    """Which calls a run takes, its paths relative to the folder that it was started in."""

    source: str
    glob: str | None
    product: Product
    voice_prompt: str | None
    voice_prompt_dir: str | None
    text_prompt: str
    channel: str
    seed: int


@dataclass(frozen=True)
class Worker:
    """Where calls were run: a device's name and kind, the machine that it is in, and its slots."""

    name: str
    node: str
    kind: str
    slots: int


@dataclass(frozen=True)
class Started:
    """What differs from run to run: the time (ISO 8601), the command line, the folder and the share of the items.

    `devices` are those that calls were run on.
    """

    started: str
    command: tuple[str, ...]
    folder: str
    shard: tuple[int, int]
    devices: tuple[Worker, ...] = ()


@dataclass(frozen=True)
class RunRecord(CallSettings, SourceSettings):
    """All of `run.json` but its schema, in the order of its keys; `passed_over` is `PassedOver.document`."""

    passed_over: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    volatile: Started


def run_record(
    request: BatchRequest, model: ModelInfo, engine: EngineInfo, passed_over: PassedOver, started: Started
) -> RunRecord:
    """The record of a batch that runs `request` with this model on this engine."""
    source, outputs, options = request.source, request.outputs, request.model
    return RunRecord(
        source=without_secrets(source.source),
        glob=source.pattern,
        product=source.product,
        voice_prompt=source.voice,
        voice_prompt_dir=_text(source.voice_folder),
        text_prompt=source.text,
        channel=source.channel,
        seed=source.seed,
        sampling=request.sampling,
        align=request.align,
        long_audio=request.long_audio,
        output=OutputSettings(**asdict(outputs), mix=source.mix),
        model=ModelIdentity(model.revision, model.weights_sha256, asdict(model)),
        model_options=model_settings(options),
        engine=EngineSettings(
            engine.device, Dtype(engine.dtype), engine.threads, engine.slots, engine.quantize, asdict(engine)
        ),
        volatile=started,
        passed_over=passed_over.document(),
    )


def model_settings(options: ModelOptions) -> ModelSettings:
    """What finds the model of `options` again."""
    overrides = options.overrides
    paths = (_text(overrides.lm), _text(overrides.mimi), _text(overrides.tokenizer))
    return ModelSettings(options.name, options.revision, *paths)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def write_record(folder: Path, record: RunRecord) -> None:
    """Write a batch's `run.json`; raises InputError."""
    document = record.document
    volatile = document.pop("volatile")
    write_run(folder, document, volatile)


def read_record(folder: Path) -> RunRecord:
    """A batch's `run.json`; raises UsageError."""
    path = folder / RUN
    document = read_json(path, "name a folder that `personaplex batch` wrote to", "run the batch again")
    mend = "run the batch again with this version"
    check_schema(document, SCHEMA, path, mend)
    return parsed(RunRecord, document, path, mend)


Settings = TypeVar("Settings", bound=CallSettings)


def parsed(kind: type[Settings], document: Mapping[str, Any], path: Path, mend: str) -> Settings:
    """The settings in a file's `document`, whose other keys are passed over; raises UsageError."""
    try:
        settings = TypeAdapter(kind).validate_python(document)
        settings.output.options  # noqa: B018 (raises for what can't be written)
    except ValidationError as error:
        raise UsageError(f"{path}: can't be used: {first_faults(field_faults(error))}", mend) from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.what}", mend) from error
    return settings
