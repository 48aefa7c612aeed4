"""What decides, beside the kernels, how a GPU rounds: set in one place for every model, and told for the record."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from personaplex.core.nn import fused

_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class CudaInfo:
    """What a GPU's bits hang on beside its kind and torch: `driver` is None where the system doesn't tell.

    `attention` is "triton" or "efficient" (torch's memory-efficient kernel), `tf32` whether float32 may be rounded to
    it after all.
    """

    cuda: str | None
    cudnn: int | None
    driver: str | None
    attention: str
    tf32: bool


def settle() -> None:
    """Set torch's switches as every model here is meant to run; they are of the whole process.

    The codec's codes hang on float32's last bits, so nothing is rounded to TF32 and no split sum to bfloat16. cuDNN may
    not pick an algorithm by its speed, nor one that adds in an order of its own. Its attention would be compiled anew
    for each length, and might round a row by its neighbours; torch takes it on some GPUs, from release to release.
    """
    backends = torch.backends
    backends.cuda.matmul.allow_tf32 = False
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    backends.cudnn.allow_tf32 = False
    backends.cudnn.deterministic = True
    backends.cudnn.benchmark = False
    backends.cuda.enable_cudnn_sdp(False)


def cuda_info(device: torch.device) -> CudaInfo | None:
    """Of a GPU that CUDA runs on; None of any other device."""
    if device.type != "cuda":
        return None
    attention = "triton" if fused.is_used(device) else "efficient"
    tf32 = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    return CudaInfo(torch.version.cuda, torch.backends.cudnn.version(), _driver(), attention, tf32)


def _driver() -> str | None:
    try:
        found = re.search(r"Module\s+(?:for \S+\s+)?([\d.]+)", _DRIVER.read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None
