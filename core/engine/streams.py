"""A CUDA stream beside the engine's, so that the codec's kernels and a tick's overlap."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Run what is inside on a stream of its own, behind all that was asked of `device` so far; only CUDA has streams.

    Whoever uses the results outside must have waited for them, as a copy to the host does.
    """
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.default_stream(device))
    with torch.cuda.stream(stream):
        yield
