"""Which devices a run works on: `all`, a list such as `cuda:0,cuda:1`, or `cpu:4` for as many processes."""

import os
import re
from dataclasses import dataclass

import torch

from personaplex.core.errors import ModelError, UsageError
from personaplex.runs.models.located import pick_device

MOST = 256


@dataclass(frozen=True)
class Device:
    """What one process computes on: `name` is its own in the run, `device` what torch calls it.

    `threads` is a CPU's share of cores, None where torch chooses; `share` is its part of the host's memory.
    """

    name: str
    device: str
    threads: int | None = None
    share: float = 1.0


def parse_devices(text: str) -> list[Device]:
    """The devices that `--devices` names; raises UsageError, and ModelError for one that isn't there."""
    if text == "all":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise ModelError("--devices all: this machine has no CUDA device", "write --devices cpu:2, or leave it out")
        return [Device(f"cuda:{index}", f"cuda:{index}") for index in range(count)]
    found = re.fullmatch(r"cpu:([0-9]{1,9})", text)
    if found:
        processes = int(found[1])
        if not 1 <= processes <= MOST:
            raise UsageError(f"--devices {text}: {processes} processes", f"use 1 to {MOST}")
        return [cpu_share(f"cpu:{number}", 1 / processes) for number in range(processes)]
    names = [name.strip() for name in text.split(",")]
    if not all(re.fullmatch(r"cuda:[0-9]{1,3}", name) for name in names) or len(set(names)) < len(names):
        raise UsageError(f'--devices "{text}" makes no sense', "write all, or cuda:0,cuda:1 and so on, or cpu:4")
    for name in names:
        pick_device(name)
    return [Device(name, name) for name in names]


def cpu_share(name: str, share: float) -> Device:
    """A part of this machine's cores and memory."""
    return Device(name, "cpu", max(1, int(_cores() * share)), share)


def _cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
