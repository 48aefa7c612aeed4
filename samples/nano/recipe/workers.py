"""Several processes that train one model: `python -m torch.distributed.run --nproc-per-node N -m ...`, or one alone.

On a CPU, N processes of one thread each keep their pace where one process of N threads waits at every operation for the
thread that another program holds up.
"""

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def join() -> tuple[int, int]:
    """(this worker's number, how many there are); the first call joins the others."""
    if "RANK" not in os.environ:
        return 0, 1
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return dist.get_rank(), dist.get_world_size()


def gather(rows: Tensor) -> tuple[Tensor, slice]:
    """Everybody's rows [N, ...] -> all of them [workers * N, ...], and where this worker's are."""
    rank, size = join()
    if size == 1:
        return rows, slice(None)
    everybody = [torch.empty_like(rows) for _ in range(size)]
    dist.all_gather(everybody, rows.contiguous())
    return torch.cat(everybody), slice(rank * len(rows), (rank + 1) * len(rows))


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over the workers."""
    _, size = join()
    if size == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= size
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))
