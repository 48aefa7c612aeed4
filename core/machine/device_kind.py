"""What a device is called, and what of a CPU's instructions is used."""

import os
import platform
from pathlib import Path

import torch

LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR")
"""Variables that keep torch and the libraries below it from using all that a processor can do."""


def device_kind(device: torch.device) -> str:
    """A GPU's name; a CPU's, the instruction set that torch uses of it, and the variables that limit its libraries."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    limits = (f"{name}={os.environ[name]}" for name in LIMITS if os.environ.get(name))
    return ", ".join((processor(), torch.backends.cpu.get_cpu_capability(), *limits))


def processor() -> str:
    """The processor's make, such as "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz"."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
