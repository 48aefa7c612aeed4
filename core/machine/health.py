"""What of this machine would keep a model from running well: versions, memory, devices, audio formats, folders."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import huggingface_hub
import psutil
import soundfile
import torch
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.machine.device_kind import device_kind
from personaplex.core.machine.memory import free_bytes, model_size
from personaplex.core.nn.int8 import Int8Matrix
from personaplex.core.nn.products import BLOCKS, TOGETHER, Matrix
from personaplex.core.weights import hub
from personaplex.core.weights.cached import cached_model
from personaplex.core.weights.published import HUB_MODEL

PACKAGES = ("personaplex", "torch", "numpy", "huggingface_hub", "soundfile")

_GIB = 2**30
_WEIGHT = (1024, 1024)  # of the depth transformer: a usual one, and quickly tried
_DOWNLOAD = 18 * _GIB  # of the published model, its voices included


@dataclass(frozen=True)
class Finding:
    """What was found of `name`. A warning costs speed or comfort, a problem keeps calls from running."""

    name: str
    state: Literal["ok", "warning", "problem"]
    what: str
    mend: str = ""


def versions() -> Iterator[Finding]:
    """Python and the packages that a call runs on; numba, which makes bfloat16 fast on a CPU."""
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}")
    for package in PACKAGES:
        yield Finding(package, "ok", version(package))
    try:
        yield Finding("numba", "ok", version("numba"))
    except PackageNotFoundError:
        needed = not _has_gpu()
        yield Finding(
            "numba",
            "warning" if needed else "ok",
            "not installed: a CPU attends slowly in bfloat16" if needed else "not installed, and not needed on a GPU",
            "run `pip install 'personaplex[cpu]'`" if needed else "",
        )


def processor() -> Iterator[Finding]:
    """A CPU's make, cores and threads, and memory."""
    physical, logical, threads = psutil.cpu_count(logical=False), psutil.cpu_count(), torch.get_num_threads()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical or 1
    kind = device_kind(torch.device("cpu"))
    said = f"{kind}; {physical or '?'} cores, {logical or '?'} hardware threads; torch runs {threads}"
    if threads > allowed:
        yield Finding("cpu", "warning", f"{said}, but may use {allowed}", f"set OMP_NUM_THREADS={allowed}")
    else:
        yield Finding("cpu", "ok", said)
    free, total = free_bytes(torch.device("cpu")), psutil.virtual_memory().total
    yield _memory("memory", f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free", free, needed=not _has_gpu())


def products() -> Iterator[Finding]:
    """How a CPU multiplies here so that no call's result depends on the others, and how many rows it takes at once."""
    found = {dtype: Matrix(torch.zeros(_WEIGHT, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16)}
    ways = {str(dtype).removeprefix("torch."): matrix.way for dtype, matrix in found.items()}
    about = ", ".join(f"{way.layout}/{way.block} in {dtype}" for dtype, way in ways.items())
    about += f", {_int8_kernels()} in int8"
    block = max(way.block for way in ways.values())
    at_once = min(matrix.at_once(TOGETHER) for matrix in found.values())
    if block > max(BLOCKS):
        yield Finding("products", "warning", f"{about}: one call takes as long as {block}", "run several calls at once")
    elif at_once < TOGETHER:
        mend = "use a few slots, or another version of torch"
        yield Finding("products", "warning", f"{about}: {TOGETHER} calls are multiplied {at_once} at a time", mend)
    else:
        yield Finding("products", "ok", about)


def _int8_kernels() -> str:
    matrix, names = Int8Matrix.of(torch.zeros(_WEIGHT)), []
    for several in (False, True):
        matrix.settle(torch.device("cpu"), several)
        names.append(matrix.kernel.name if matrix.kernel else "weights alone")
    return " and ".join(dict.fromkeys(names))


def devices() -> Iterator[Finding]:
    """The GPUs with their memory."""
    for index in range(torch.cuda.device_count()):
        name = f"cuda:{index}"
        try:
            free, total = torch.cuda.mem_get_info(index)
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            yield Finding(name, "problem", f"can't be used: {reason}", "check its driver, or use --device cpu")
            continue
        about = f"{torch.cuda.get_device_name(index)}, {free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
        yield _memory(name, about, free, needed=True)
    if torch.backends.mps.is_available():
        yield Finding("mps", "ok", "Apple's GPU, which shares the memory")
    if not _has_gpu():
        yield Finding("gpu", "ok", "none: models run on the CPU")


def _has_gpu() -> bool:
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _memory(name: str, about: str, free: int, needed: bool) -> Finding:
    need = model_size(PERSONAPLEX_7B, 1, PERSONAPLEX_7B.lm.context, torch.bfloat16.itemsize).total_bytes
    if free >= need or not needed:
        return Finding(name, "ok", about)
    mend = "free some" if name == "memory" else "free some, or use --cpu-offload or --device cpu"
    in_int8 = model_size(PERSONAPLEX_7B, 1, PERSONAPLEX_7B.lm.context, torch.bfloat16.itemsize, int8=True).total_bytes
    mend += f"; --quantize int8 needs {in_int8 / _GIB:.1f} GiB"
    return Finding(name, "warning", f"{about}; the 7B needs {need / _GIB:.1f}", f"{mend}; `tiny` runs anywhere")


def audio_formats() -> Iterator[Finding]:
    """libsndfile, and whether it reads the compressed formats."""
    formats = soundfile.available_formats()
    there = {
        "FLAC": "FLAC" in formats,
        "OGG/Opus": "OGG" in formats and "OPUS" in soundfile.available_subtypes("OGG"),
        "MP3": "MP3" in formats,
    }
    lacking = [name for name, has in there.items() if not has]
    about = f"{soundfile.__libsndfile_version__}, reads WAV{''.join(f', {name}' for name, has in there.items() if has)}"
    if lacking:
        mend = "run `pip install --upgrade soundfile`, whose wheels bring a libsndfile of their own"
        yield Finding("libsndfile", "warning", f"{about}; lacks {', '.join(lacking)}", mend)
    else:
        yield Finding("libsndfile", "ok", about)


def caches() -> Iterator[Finding]:
    """The folders that downloads and unpacked voices go to."""
    wanted = 0 if cached_model(HUB_MODEL).presence == "here" else _DOWNLOAD
    yield _folder("hub cache", Path(constants.HF_HUB_CACHE), "HF_HOME", wanted)
    yield _folder("own cache", hub.cache_folder(), "PERSONAPLEX_CACHE", 0)


def _folder(name: str, folder: Path, variable: str, wanted: int) -> Finding:
    """Its size and its disk's free space; `wanted` bytes are still to come."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        mend = f"make it a folder that can be written, or set {variable} to another"
        return Finding(name, "problem", f"{folder}: nothing can be written to {there}", mend)
    free = shutil.disk_usage(there).free
    about = f"{folder}: {_size(folder) / _GIB:.2f} GiB, {free / _GIB:.1f} GiB free on its disk"
    if free < wanted:
        what = f"{about}; the published model takes {wanted / _GIB:.0f}"
        return Finding(name, "warning", what, f"free some, or set {variable} to a folder on a larger disk")
    return Finding(name, "ok", about)


def _size(folder: Path) -> int:
    """Bytes of all files below a folder, links not followed; those that vanish meanwhile are left out."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def published_model(online: bool) -> Iterator[Finding]:
    """Whether the published model is here, a token is set and, if the hub may be asked, access was granted."""
    cached = cached_model(HUB_MODEL)
    here = cached.presence == "here"
    fetch = f"run `personaplex models fetch {HUB_MODEL}`"
    if here:
        yield Finding("model", "ok", f"{HUB_MODEL} is in {cached.folder}")
    else:
        missing = "is not on this machine" if cached.presence == "absent" else f"is incomplete in {cached.folder}"
        yield Finding("model", "warning", f"{HUB_MODEL} {missing}", fetch)
    if huggingface_hub.get_token():
        yield Finding("token", "ok", "a Hugging Face token is set")
    elif here:
        yield Finding("token", "ok", "no Hugging Face token, and none needed: the model is here")
    else:
        mend = "run `hf auth login` or set HF_TOKEN"
        yield Finding("token", "warning", "no Hugging Face token: the published model can't be fetched", mend)
    yield _licence() if online else Finding("licence", "ok", "not checked: offline; --online asks the hub")


def _licence() -> Finding:
    if constants.HF_HUB_OFFLINE:
        return Finding("licence", "warning", "not checked: HF_HUB_OFFLINE forbids it", "unset HF_HUB_OFFLINE")
    try:
        huggingface_hub.auth_check(HUB_MODEL)
    except Exception as error:  # the errors of its transports come through the library, and they share no base
        told = hub.told_error(error, HUB_MODEL, "what it grants", None)
        if isinstance(error, HfHubHTTPError):
            return Finding("licence", "problem", told.what, told.mend)
        reason = str(error).partition("\n")[0]
        return Finding("licence", "warning", f"not known: the hub can't be asked ({reason})", told.mend)
    return Finding("licence", "ok", f"accepted: {HUB_MODEL} may be fetched")
