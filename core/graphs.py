"""A tick captured as CUDA graphs: one for each length of cache that is read, replayed without Python in between."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.lm.state import LMState


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    out: Tensor


class StepGraphs:
    """Graphs of a function that changes `state` in place and returns a tensor of a fixed place in memory."""

    def __init__(self, state: LMState) -> None:
        self._state = state
        self._captured: dict[int, _Captured] = {}

    def run(self, read: int, compute: Callable[[], Tensor]) -> Tensor:
        """What `compute` returns. What it reads must lie where it lay when `read` was first seen."""
        if read not in self._captured:
            self._captured[read] = self._capture(compute)
        captured = self._captured[read]
        captured.graph.replay()
        return captured.out.clone()

    def _capture(self, compute: Callable[[], Tensor]) -> _Captured:
        # Kernels are chosen and set up on their first run, which must not be part of a graph; it may not count either.
        tensors = (self._state.column, self._state.held, self._state.cache.length)
        before = [tensor.clone() for tensor in tensors]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compute()
        torch.cuda.current_stream().wait_stream(stream)
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copy_(value)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = compute()
        return _Captured(graph, out)
