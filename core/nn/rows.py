"""Functions whose rows are calls: what a row gives is a function of that row alone, checked where the code runs.

No library promises that a row rounds alike among other rows: kernels are chosen by the number of rows, and an element
may fall to a vector or to a loop's scalar rest by its place. So what a row gives is defined by the row alone, and rows
are computed together only where a check on this machine, of the same shapes and number of threads, found the same bits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PROBED = 1 << 14  # values of rows that a check goes through at least


class PerRow:
    """`function` of tensors [R, ...], which returns [R, ...], such that each row is what it gives for that row alone.

    Only CPUs are checked. A check is made once for a function, its shapes and the number of threads, and kept for the
    process.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function = function
        self._holds: dict[tuple[Any, ...], bool] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The function of all rows."""
        rows, function = len(inputs[0]), self._function
        if inputs[0].device.type != "cpu":
            return function(*inputs)
        if rows == 1:
            return function(*map(Tensor.contiguous, inputs))
        key = (torch.get_num_threads(), *map(_layout, inputs))
        if key not in self._holds:
            self._holds[key] = self._check(inputs)
        if self._holds[key]:
            return function(*inputs)
        return torch.cat([self._alone(inputs, row) for row in range(rows)])

    def _alone(self, inputs: tuple[Tensor, ...], row: int) -> Tensor:
        return self._function(*(tensor[row : row + 1].contiguous() for tensor in inputs))

    def _check(self, inputs: tuple[Tensor, ...]) -> bool:
        """Whether one row among others gives what it gives alone, at every place."""
        generator = torch.Generator().manual_seed(len(inputs[0]))
        probed = 0
        while probed < PROBED:
            among = tuple(_like(tensor, generator) for tensor in inputs)
            for first in (0, 1):  # the row is at every second place, the others hold something else
                for tensor in among:
                    tensor[first::2] = tensor[first : first + 1].clone()
                alone = self._alone(among, first)
                found = self._function(*among)[first::2]
                if not torch.allclose(found, alone.expand_as(found), rtol=0, atol=0, equal_nan=True):
                    return False
                probed += sum(tensor[first::2].numel() for tensor in among)
        return True


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.is_contiguous() or tensor.stride(), tensor.dtype


def _like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Random values in the layout of `tensor`."""
    random = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return random.copy_(3 * torch.randn(tensor.shape, generator=generator))
