"""A model by name, its files found, then loaded; and the voices that come with it."""

import logging
import os
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from personaplex.core.errors import ModelError, UsageError, VoiceError
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.nn import fused
from personaplex.core.nn.products import pack
from personaplex.core.weights import model as models
from personaplex.core.weights.model import Model, ModelFiles, Overrides
from personaplex.core.weights.offload import offload
from personaplex.core.weights.published import HUB_MODEL, VOICES, warning_of_terms
from personaplex.runs.choices import Dtype, Quantize
from personaplex.samples import tiny
from personaplex.samples.catalog import placed

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelOptions:
    """Which model - its name, directory or hub id - on which device, and how."""

    name: str
    revision: str | None
    overrides: Overrides
    device: str
    dtype: Dtype
    cpu_offload: bool
    batch_invariant: bool = False
    quantize: Quantize = Quantize.none


@dataclass(frozen=True)
class LocatedModel:
    """A model whose files are at hand; `files` is None for a packaged one, which is made in memory."""

    options: ModelOptions
    files: ModelFiles | None

    def voices_folder(self) -> Path:
        """The folder of the voices that come with the model, fetched or unpacked if need be; raises VoiceError."""
        from personaplex.core.weights import hub

        name = self.options.name
        if self.files is None or (self.files.voices is None and os.path.isdir(name)):
            raise VoiceError(f'the model "{name}" comes with no voices', "give --voice-prompt a recording or a file")
        voices = self.files.voices or hub.fetch(name, VOICES, self.files.revision or None)
        return voices if voices.is_dir() else hub.unpacked_voices(voices)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """What a transcript will say of the weights and the tokenizer, without loading them; raises ModelError."""
        if self.files is None:
            model = tiny.load(torch.device("cpu"))
            return {"weights_sha256": model.weights_sha256, "tokenizer_sha256": model.tokenizer.sha256}
        tokenizer = Tokenizer(self.files.tokenizer)
        try:
            return {"weights_sha256": models.files_sha256(self.files), "tokenizer_sha256": tokenizer.sha256}
        except OSError as error:
            raise ModelError(f"{error.filename}: {error.strerror}", "check the model's files") from error

    def load(self) -> Model:
        """The model on its device; raises ModelError."""
        start = time.perf_counter()
        if self.options.cpu_offload and self.options.batch_invariant:
            raise UsageError("--cpu-offload and --batch-invariant exclude each other", "give one of them")
        device = pick_device(self.options.device)
        dtype = None if self.options.dtype is Dtype.auto else getattr(torch, self.options.dtype)
        int8 = self.options.quantize is Quantize.int8
        offloaded = self.options.cpu_offload and device.type != "cpu"
        where = torch.device("cpu") if offloaded else device
        if self.files is None:
            model = tiny.load(where, dtype)
            if int8:
                model.lm.temporal.hold_int8()
            log.warning("tiny is made of random weights: it answers with noise, to try pipelines out")
        else:
            model = models.load(self.files, where, dtype, self.hashes["weights_sha256"], int8)
        if offloaded:
            offload(model, device)
        else:
            pack(model.lm, self._is_invariant(device))
        if device.type == "cuda" and (trouble := fused.fault(fused.index(device))):
            log.warning("%s: %s; torch's kernels do the same work, more slowly", device, trouble)
        log.info("loaded %s on %s in %.2f s", model.name, device, time.perf_counter() - start)
        return model

    def _is_invariant(self, device: torch.device) -> bool:
        """Whether products on a GPU are to round alike for any number of slots, which those on a CPU always do."""
        if not self.options.batch_invariant or device.type == "cpu":
            return False
        if not fused.is_used(device):
            what = f"--batch-invariant: Triton's kernels don't run on {device}"
            raise ModelError(what, "give --slots instead, the same every time")
        return True


def with_voices(name: str, revision: str | None) -> ModelFiles:
    """A model's files, with its archive of voices if it is the published one; raises ModelError or UsageError."""
    from personaplex.core.weights import hub

    files = models.locate(placed(name), revision)
    if name == HUB_MODEL:
        files = replace(files, voices=hub.fetch(name, VOICES, files.revision or None))
    return files


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


def locate_model(options: ModelOptions) -> LocatedModel:
    """Find the model's files, downloading what is missing; raises ModelError or UsageError."""
    pick_device(options.device)  # before any download
    if options.name != tiny.NAME:
        if told := warning_of_terms(options.name):
            log.warning(told)
        return LocatedModel(options, models.locate(placed(options.name), options.revision, options.overrides))
    if options.overrides != Overrides() or options.revision:
        raise UsageError("tiny is made in memory: it has no revision and no files", "choose another --model")
    return LocatedModel(options, None)
