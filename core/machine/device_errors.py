"""What is raised where a device can't do its work - its memory is full, torch has no kernels for it - told to the user.

What a bug of ours makes a device say is not told: it keeps its traceback.
"""

import re
import sys
from typing import Any

from personaplex.core.errors import ModelError, PersonaplexError

_GIB = 2**30
_FULL = ("out of memory", "status_alloc_failed")
_NO_KERNELS = ("no kernel image", "kernel image is invalid", "invalid device function", "status_arch_mismatch")
_BUGS = ("assert", "illegal", "misaligned", "invalid", "captur", "not_supported")  # of what the program asked for
_UNKNOWN = (RuntimeError, AssertionError, ValueError)  # a GPU that can't even be asked for its name
_FEWER = "use fewer --slots, shorter calls or --dtype bfloat16"


def told_device_error(error: BaseException) -> PersonaplexError | None:
    """The error to show for `error`: itself, if it is told as it is, or one for what a device raised; else None."""
    if isinstance(error, PersonaplexError):
        return error
    text = str(error)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in text):
        return _host_is_full(text)
    torch: Any = sys.modules.get("torch")  # without it there is no GPU; importing it would be slow
    if torch is None or not isinstance(error, RuntimeError):
        return None
    if text.startswith("MPS backend out of memory"):
        return _apples_gpu_is_full(text)
    of_cuda = text.startswith(("CUDA error", "CUDA driver error", "cuDNN error"))
    if isinstance(error, torch.OutOfMemoryError) or (of_cuda and _says(text, _FULL)):
        what = _lacks_memory(_gpu(torch, text), text, _use(torch, text))
        return ModelError(what, f"free some, {_FEWER}, or else --cpu-offload or another --device")
    if of_cuda and _says(text, _NO_KERNELS):
        return _has_no_kernels(torch, text)
    if of_cuda and "captur" in text and error.__context__ is not None:
        return told_device_error(error.__context__)  # what broke the capture of a graph off
    if of_cuda and not _says(text, _BUGS):
        what = f"{_gpu(torch, text)}: {text.splitlines()[0]}"
        return ModelError(what, "check it with `nvidia-smi` and `personaplex doctor`, or use another --device")
    return None


def _says(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


def _host_is_full(text: str) -> ModelError:
    import psutil

    memory = psutil.virtual_memory()
    what = _lacks_memory("this machine", text, f"{_gib(memory.available)} of {_gib(memory.total)} GiB free")
    return ModelError(what, f"close other programs, {_FEWER}, or take a machine with more memory")


def _apples_gpu_is_full(text: str) -> ModelError:
    use = re.search(r"\((.*?)\)", text)
    what = _lacks_memory("mps (Apple's GPU)", text, use[1] if use else "")
    return ModelError(what, f"close other programs, {_FEWER}, or take a machine with more memory")


def _has_no_kernels(torch: Any, text: str) -> ModelError:
    what = f"{_gpu(torch, text, architecture=True)}: torch {torch.__version__} has no kernels for this GPU"
    newer = "sm_100 and sm_120: torch 2.7 and CUDA 12.8, or newer"
    return ModelError(what, f"install a torch that has ({newer}; old GPUs: an older CUDA), or use --device cpu")


def _lacks_memory(place: str, text: str, use: str) -> str:
    asked = re.search(r"llocate ([\d.]+) (bytes|\w*B)\b", text)
    size = ""
    if asked:
        size = f"{_gib(int(asked[1]))} GiB" if asked[2] == "bytes" else f"{asked[1]} {asked[2]}"
    figures = ", ".join(filter(None, [size and f"{size} asked for", use]))
    return f"{place}: not enough memory" + (figures and f": {figures}")


def _gpu(torch: Any, text: str, architecture: bool = False) -> str:
    """Number and name of the GPU that an error's text is about."""
    try:
        index = _index(torch, text)
        known = torch.cuda.get_device_name(index)
        if architecture:
            known += ", sm_{}{}".format(*torch.cuda.get_device_capability(index))
    except _UNKNOWN:
        return "the GPU"
    return f"cuda:{index} ({known})"


def _use(torch: Any, text: str) -> str:
    """How full that GPU is."""
    try:
        index = _index(torch, text)
        free, total = torch.cuda.mem_get_info(index)
        own = torch.cuda.memory_reserved(index)
    except _UNKNOWN:
        return ""
    return f"{_gib(free)} of {_gib(total)} GiB free, {_gib(own)} GiB held by this run"


def _index(torch: Any, text: str) -> int:
    """The GPU that the text names, else the one that this process has most memory of."""
    named = re.search(r"\bGPU (\d+)", text)
    return int(named[1]) if named else max(range(torch.cuda.device_count()), key=torch.cuda.memory_reserved)


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f}"
