"""Starting a Triton kernel."""

from collections.abc import Sequence
from typing import Any

import torch


def launch(kernel: Any, grid: Sequence[int], *arguments: Any, **constants: Any) -> None:
    """Start a kernel on the device of its first argument."""
    with torch.cuda.device_of(arguments[0]):
        kernel[tuple(grid)](*arguments, **constants)
