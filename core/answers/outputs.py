"""A response's files: WAV, transcript, exports, tokens and the stereo mix, all or none of them."""

import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from personaplex.core.answers.analysis import Analysis, analyse
from personaplex.core.answers.exports import EXPORTERS, Transcript, frame_texts
from personaplex.core.answers.ownership import place
from personaplex.core.answers.transcript import (
    EngineInfo,
    ModelInfo,
    PromptInfo,
    SamplingInfo,
    document,
    dumps,
    segments,
)
from personaplex.core.audio import reading
from personaplex.core.audio.writing import SUBTYPES, encode_wav
from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE
from personaplex.core.engine.call import Align
from personaplex.core.engine.job import Prompt, Response
from personaplex.core.engine.rounding import rounding
from personaplex.core.errors import UsageError
from personaplex.core.files import Staged, encoded
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.machine.device_kind import device_kind
from personaplex.core.nn.invariant import are_invariant
from personaplex.core.nn.kernels import compiled
from personaplex.core.nn.precision import cuda_info
from personaplex.core.nn.products import ways
from personaplex.core.sampling.draw import Sampling
from personaplex.core.sampling.noise import LAYOUT
from personaplex.core.storage.spool import fetched_version
from personaplex.core.storage.urls import Stored
from personaplex.core.weights.model import Model
from personaplex.core.weights.tensors import encode_tensors

Pace = Literal["batch", "realtime"]

_VERSIONS = ("personaplex", "torch", "numpy", "soundfile", "soxr", "sentencepiece", "pyloudnorm")


@dataclass(frozen=True)
class OutputOptions:
    """What is written beside the WAV and its JSON, and how."""

    subtype: str = "PCM_16"
    rate: int = SAMPLE_RATE
    formats: tuple[str, ...] = ("json",)
    tokens: bool = False

    def __post_init__(self) -> None:
        if self.subtype not in SUBTYPES:
            raise UsageError(f'--output-subtype "{self.subtype}" is unknown', f"choose one of {', '.join(SUBTYPES)}")
        if not 1000 <= self.rate <= 384_000:
            raise UsageError(f"--output-rate is {self.rate}", "choose a rate from 1000 to 384000 samples a second")


@dataclass(frozen=True)
class OutputPaths:
    """Where a response's files go; the others stand beside the WAV, under its stem."""

    wav: Path
    json: Path
    mix: Path | None = None

    def all(self, options: OutputOptions) -> list[Path]:
        """Every file that `write` makes, the JSON last."""
        paths = [self.wav, *self.exports(options).values()]
        if options.tokens:
            paths.append(self.tokens)
        if self.mix is not None:
            paths.append(self.mix)
        return [*paths, self.json]

    def exports(self, options: OutputOptions) -> dict[str, Path]:
        """Paths of the chosen formats beside the JSON."""
        chosen = [name for name in options.formats if name in EXPORTERS]
        return {name: self.json.with_name(self.json.stem + EXPORTERS[name].suffix) for name in chosen}

    @property
    def tokens(self) -> Path:
        """Where `--save-tokens` goes."""
        return self.wav.with_name(f"{self.wav.stem}.tokens.safetensors")


@dataclass(frozen=True)
class Run:
    """What all calls of a run have in common, for their transcripts."""

    model: ModelInfo
    engine: EngineInfo
    tokenizer: Tokenizer
    sampling: Sampling
    align: Align
    options: OutputOptions

    @classmethod
    def of(
        cls, model: Model, slots: int, sampling: Sampling, align: Align, options: OutputOptions, pace: Pace = "batch"
    ) -> "Run":
        """The run of a loaded model. A CPU's bits may depend on its threads, a GPU's on the slots."""
        device, gpu = model.device.type, cuda_info(model.device)
        invariant = are_invariant(model.lm.text_linear)
        engine = EngineInfo(
            device=device,
            device_kind=device_kind(model.device),
            dtype=str(model.lm.dtype).removeprefix("torch."),
            quantize="int8" if model.lm.temporal.is_int8 else None,
            products=ways(model.lm) if device == "cpu" else "triton" if invariant else None,
            rounding=rounding(model.lm, model.mimi) if device == "cpu" else None,
            threads=torch.get_num_threads() if device == "cpu" else None,
            slots=None if device == "cpu" or invariant else slots,
            pace=pace,
            gpu=None if gpu is None else asdict(gpu) | ({"int8": ways(model.lm)} if model.lm.temporal.is_int8 else {}),
            versions=_versions(model),
        )
        info = ModelInfo(model.name, model.revision, model.weights_sha256, model.tokenizer.sha256)
        return cls(info, engine, model.tokenizer, sampling, align, options)


def _versions(model: Model) -> dict[str, str]:
    compiled_attention = model.device.type == "cpu" and compiled.is_used(model.lm.dtype)
    packages = (*_VERSIONS, "numba") if compiled_attention else _VERSIONS
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


@dataclass(frozen=True)
class Files:
    """Files on their way to their places, by `keep`: `sha256` has those that lie in `folder`, by their names."""

    folder: Path
    keep: Callable[[Path, bytes | memoryview], None]
    sha256: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path, content: bytes | memoryview) -> None:
        """Hand a file over."""
        self.keep(path, content)
        if path.parent == self.folder:
            self.sha256[path.name] = hashlib.sha256(content).hexdigest()


def write(
    response: Response,
    run: Run,
    paths: OutputPaths,
    source: str,
    started: str,
    seconds: float,
    *,
    clears: bool = False,
) -> dict[str, Any]:
    """Write a response's files, the JSON last, and return the transcript document.

    They take the places of an older answer's only when all are whole. What that one had beyond them is removed if this
    one `clears`.
    `source` is the input's path as the user gave it. Raises InputError if a file can't be written; then none stays,
    and the older answer does.
    """
    with Staged() as staged:
        record = _make(response, run, paths, source, started, seconds, staged.write)
        staged.write(paths.json, encoded(dumps(record)))
        place(staged, paths.json, clears=clears)
    return record


def transcript_of(
    response: Response, run: Run, paths: OutputPaths, source: str, started: str, seconds: float
) -> dict[str, Any]:
    """The transcript document that `write` would write, and nothing else of it."""
    return _make(response, run, paths, source, started, seconds, lambda path, content: None)


def _make(
    response: Response,
    run: Run,
    paths: OutputPaths,
    source: str,
    started: str,
    seconds: float,
    keep: Callable[[Path, bytes | memoryview], None],
) -> dict[str, Any]:
    """The transcript document of a response, every other file of which is given to `keep`."""
    options, files = run.options, Files(paths.json.parent, keep)
    volatile = {"started": started, "seconds": round(seconds, 3)}
    wav, output = encode_wav(response.samples, rate=options.rate, subtype=options.subtype)
    files.write(paths.wav, wav)
    if paths.mix is not None:
        files.write(paths.mix, encode_wav(_stereo(response), rate=options.rate, subtype=options.subtype)[0])
    if options.tokens:
        files.write(paths.tokens, _tokens(response))
    analysis = analyse(response, run.tokenizer)
    texts = frame_texts(response.tokens[:, 0], run.tokenizer)
    transcript = Transcript(response.job.id, segments(analysis.spoken), texts)
    for name, path in paths.exports(options).items():
        files.write(path, encoded(EXPORTERS[name].render(transcript)))
    block = {"path": paths.wav.name, "subtype": options.subtype, **asdict(output), "align": run.align}
    return _document(response, run, analysis, source, block, files.sha256, volatile)


def _document(
    response: Response,
    run: Run,
    analysis: Analysis,
    source: str,
    output: Mapping[str, Any],
    files: Mapping[str, str],
    volatile: Mapping[str, Any],
) -> dict[str, Any]:
    job, duration = response.job, response.info.duration
    extra = {
        "times_real_time": round(duration / volatile["seconds"], 2) if volatile["seconds"] else None,
        "phases": {name: round(spent, 3) for name, spent in response.seconds.items()},
    }
    if response.pace is not None:
        extra["pace"] = dict(response.pace)
    if isinstance(job.input, Stored) and (version := fetched_version(job.input)) is not None:
        extra["input_version"] = version  # by which a resume knows it again without fetching it
    return document(
        id=job.id,
        tokens=response.tokens,
        spoken=analysis.spoken,
        input=asdict(response.info) | {"path": source} | part_block(job.offset, job.duration),
        output=output,
        files=files,
        activity=analysis.activity,
        flags=[asdict(flag) for flag in analysis.flags],
        prompt=prompt_info(job.prompt),
        sampling=sampling_info(job.seed, run.sampling),
        model=run.model,
        engine=run.engine,
        warnings=response.warnings,
        volatile={**volatile, **extra},
    )


def prompt_info(prompt: Prompt) -> PromptInfo:
    """What a transcript says of a prompt."""
    return PromptInfo(prompt.voice.name, prompt.voice.sha256, prompt.text, len(prompt.text_tokens), prompt.steps)


def sampling_info(seed: int, sampling: Sampling) -> SamplingInfo:
    """What a transcript says of how tokens were drawn."""
    return SamplingInfo(seed=seed, **asdict(sampling), noise=LAYOUT)


def part_block(offset: float, duration: float | None) -> dict[str, Any]:
    """What the input block says of a part that was asked for, in seconds; nothing of a whole file."""
    return {} if not offset and duration is None else {"part": {"offset": offset, "duration": duration}}


def _stereo(response: Response) -> reading.Samples:
    """[N, 2]: the caller as the model heard it on the left, the agent on the right."""
    job = response.job
    caller = reading.read(job.input, channel=job.channel, offset=job.offset, duration=job.duration).samples
    return np.stack([caller, response.samples], axis=1)


def _tokens(response: Response) -> bytes:
    tensors = {"tokens": torch.from_numpy(response.tokens), "user_codes": torch.from_numpy(response.user_codes)}
    return encode_tokens(response.job.id, tensors)


def encode_tokens(name: str, tensors: Mapping[str, Tensor]) -> bytes:
    """The tokens of what is called `name`, as `--save-tokens` writes them."""
    metadata = {"schema": "personaplex.tokens/1", "id": name, "frame_samples": str(FRAME_SAMPLES)}
    return encode_tensors(tensors, metadata)
