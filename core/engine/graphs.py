"""A tick captured as CUDA graphs: one for each length of cache that is read, replayed without Python in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def can_capture(device: torch.device) -> bool:
    """Whether a device has graphs."""
    return device.type == "cuda"


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    out: Tensor


class StepGraphs:
    """Graphs of a function that returns a tensor of a fixed place in memory.

    `changed` are the tensors that it changes in place and reads again the next time.
    """

    def __init__(self, changed: Sequence[Tensor]) -> None:
        self._changed = changed
        self._captured: dict[int, _Captured] = {}
        with torch.cuda.device(changed[0].device):
            # CUDA hands the streams of a priority out in turn, and again after 32. A worker that got the stream of a
            # capture would put its own kernels into the graph, so this one comes from a priority nobody else asks for.
            self._stream = torch.cuda.Stream(priority=-1)
            self._pool = torch.cuda.graph_pool_handle()

    def run(self, read: int, compute: Callable[[], Tensor]) -> Tensor:
        """What `compute` returns. What it reads must lie where it lay when `read` was first seen."""
        if read not in self._captured:
            self._captured[read] = self._capture(compute)
        captured = self._captured[read]
        captured.graph.replay()
        return captured.out.clone()

    def _capture(self, compute: Callable[[], Tensor]) -> _Captured:
        # Kernels are chosen and set up on their first run, which must not be part of a graph; it may not count either.
        before = [tensor.clone() for tensor in self._changed]
        with torch.cuda.device(self._changed[0].device):
            stream = self._stream
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                compute()
            torch.cuda.current_stream().wait_stream(stream)
            for tensor, value in zip(self._changed, before, strict=True):
                tensor.copy_(value)
            graph = torch.cuda.CUDAGraph()
            # The codec's threads may allocate meanwhile, which a capture of all threads would not bear. Graphs are
            # replayed one after the other, and write what they read of the pool before: so one pool serves all.
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                out = compute()
        return _Captured(graph, out)
