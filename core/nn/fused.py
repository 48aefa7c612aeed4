"""Whether a device runs our Triton kernels, each of which takes the place of many of torch's.

They run on CUDA alone, where Triton works (it comes with torch on Linux and needs a C compiler). They are tried once a
process on each GPU: one on which they fail, or compute something else than torch, runs torch's kernels.
"""

from functools import cache
from importlib.util import find_spec

import torch


def is_used(device: torch.device) -> bool:
    """Whether what runs on `device` takes the fused kernels."""
    return device.type == "cuda" and not fault(index(device))


@cache
def fault(gpu: int) -> str:
    """Why the GPU with this number does not run the kernels; empty where it does."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    from personaplex.core.nn.kernels import fused_check

    try:
        wrong = fused_check.differing(torch.device("cuda", gpu))
    except Exception as error:  # whatever a compiler raises, torch's kernels do the same work
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"Triton's kernels don't run: {lines[0]}"
    return f"Triton's kernels compute something else: {', '.join(wrong)}" if wrong else ""


def index(device: torch.device) -> int:
    """The number of a GPU."""
    return torch.cuda.current_device() if device.index is None else device.index
