"""From options to a loaded model, its voices and the prompt."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from personaplex.cli.console import log
from personaplex.cli.options import Dtype
from personaplex.core import model as models
from personaplex.core.errors import ModelError, UsageError, VoiceError
from personaplex.core.model import Model, ModelFiles, Overrides
from personaplex.core.offload import offload
from personaplex.prompts import library
from personaplex.samples import tiny

DEFAULT_ROLE = "teacher"


@dataclass(frozen=True)
class ModelOptions:
    """Which model, where and how."""

    model: str | None
    hf_repo: str | None
    revision: str | None
    overrides: Overrides
    device: str
    dtype: Dtype
    cpu_offload: bool

    @property
    def name(self) -> str:
        """The model's name, directory or hub id."""
        if self.model and self.hf_repo and self.model != self.hf_repo:
            raise UsageError("--model and --hf-repo name two models", "give one of them")
        return self.model or self.hf_repo or models.HUB_MODEL


@dataclass(frozen=True)
class LoadedModel:
    """A model and where its own voices are."""

    model: Model
    files: ModelFiles | None

    def voices_folder(self) -> Path:
        """The folder of the voices that come with the model, fetched or unpacked if need be; raises VoiceError."""
        from personaplex.core import hub

        name = self.model.name
        if self.files is None or (self.files.voices is None and "/" not in name):
            raise VoiceError(f'the model "{name}" comes with no voices', "give --voice-prompt a recording or a file")
        voices = self.files.voices or hub.fetch(name, models.VOICES, self.files.revision or None)
        return voices if voices.is_dir() else hub.unpacked_voices(voices)


def pick_device(name: str) -> torch.device:
    """The device called `name`; `auto` prefers CUDA, then Apple's GPU. Raises ModelError if it isn't there."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device {name} is unknown", "use auto, cuda, cuda:N, mps or cpu") from error
    there = {"cpu": True, "cuda": cuda and (device.index or 0) < torch.cuda.device_count(), "mps": mps}
    if not there.get(device.type, False):
        raise ModelError(f"--device {name}: this machine has no such device", "use --device auto, or cpu")
    return device


def load_model(options: ModelOptions) -> LoadedModel:
    """Find and load the model; raises ModelError or UsageError."""
    start = time.perf_counter()
    device = pick_device(options.device)
    dtype = None if options.dtype is Dtype.auto else getattr(torch, options.dtype)
    if options.name == tiny.NAME:
        if options.overrides != Overrides() or options.revision:
            raise UsageError("tiny is made in memory: it has no revision and no files", "choose another --model")
        loaded = LoadedModel(tiny.load(device, dtype), None)
        log.warning("tiny is made of random weights: it answers with noise, to try pipelines out")
    else:
        files = models.locate(options.name, options.revision, options.overrides)
        where = torch.device("cpu") if options.cpu_offload else device
        loaded = LoadedModel(models.load(files, where, dtype), files)
        if options.cpu_offload:
            offload(loaded.model, device)
    log.info("loaded %s on %s in %.2f s", loaded.model.name, device, time.perf_counter() - start)
    return loaded


def prompt_text(text: str | None, file: Path | None, role: str | None, fields: Sequence[str]) -> str:
    """The text prompt that the options choose; raises UsageError for two of them, or a role's missing field."""
    if sum(given is not None for given in (text, file, role)) > 1:
        raise UsageError("--text-prompt, --text-prompt-file and --role exclude each other", "give one of them")
    values = dict(_key_and_value(field) for field in fields)
    if values and role is None:
        raise UsageError("--field fills in a --role, and none is given", "name the role")
    if text is not None:
        return text
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--text-prompt-file {file}: {error.strerror}", "name a text file") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--text-prompt-file {file}: not UTF-8 text", "save it as UTF-8") from error
    return library.render(role or DEFAULT_ROLE, values)


def _key_and_value(field: str) -> tuple[str, str]:
    key, found, value = field.partition("=")
    if not found:
        raise UsageError(f'--field "{field}" has no "="', "write --field key=value")
    return key.strip(), value
