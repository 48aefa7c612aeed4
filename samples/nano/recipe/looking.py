"""Where attention heads look in a prompt: one for what is to be said, one for what kind of company it is.

A head that finds neither out by itself in so short a training is shown where to look, and what to write of it.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.samples.nano.recipe.timeline import Call

SAYS_HEAD, KIND_HEAD = 0, 1  # which attention heads look for what is said, and for the company's kind
COPIED_SIZE = 6.0  # of what is copied, beside what else the layers write
KIND_LOOKS = 24  # places in a call from which the company's kind is looked for


def looks(row: int, call: Call) -> Tensor:
    """Where to look in a call: when it says what the prompt tells, and for the company's kind at any time."""
    says = [(row, SAYS_HEAD, at - 1, source) for at, source in call.sources]
    drawn = torch.randint(call.prompt, len(call.frames) - 1, (KIND_LOOKS,)).tolist() if call.kind >= 0 else []
    return torch.tensor(says + [(row, KIND_HEAD, at, call.kind) for at in drawn], dtype=torch.int64).view(-1, 4)


def written(head: int, seen: Tensor, out_proj: Tensor) -> Tensor:
    """What a head that has seen the values [N, D] writes, [N, dim], as small as it is beside all that is written."""
    size = seen.shape[-1]
    return F.linear(seen, out_proj[:, head * size : (head + 1) * size]) / COPIED_SIZE


def look_loss(looks: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """How little the heads look where `looks` [N, 4] says, by the queries and keys [B, H, T, D]."""
    row, head, at, target = looks.T
    scores = (query[row, head, at][:, None] * query.shape[-1] ** -0.5) @ key[row, head].mT
    later = torch.arange(key.shape[2]) > at[:, None]
    return F.cross_entropy(scores[:, 0].float().masked_fill(later, -torch.inf), target)
