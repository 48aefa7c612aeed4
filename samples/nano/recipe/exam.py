"""What a language model in training knows of calls it has not met, told the true past: cheap, and so often measured."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.samples.nano.recipe import lm_pass
from personaplex.samples.nano.recipe.mix import Kind, Mixer
from personaplex.samples.nano.recipe.timeline import Call
from personaplex.samples.nano.recipe.trainee import NEVER, Trainee, batched

CALLS = 24
SEED = 7


def questions(mixer: Mixer, count: int = CALLS) -> list[Call]:
    """Calls with callers, ways to ask and pairs of names that training lacks."""
    rng = random.Random(SEED)  # noqa: S311 - variety, not secrets
    kinds = (Kind.QUESTIONS, Kind.FACTS)
    return [mixer.call(rng, kinds[number % 2], held_out=True) for number in range(count)]


@torch.inference_mode()
def examine(trainee: Trainee, calls: Sequence[Call], initial: Tensor) -> dict[str, tuple[int, int]]:
    """How often it knows the caller's intent (`wants`) and the first words of what it chooses, and of how many."""
    trainee.eval()
    right, asked = defaultdict[str, int](int), defaultdict[str, int](int)
    for place in range(0, len(calls), 8):
        for what, known in _known(trainee, list(calls[place : place + 8]), initial):
            right[what] += known
            asked[what] += 1
    trainee.train()
    return {what: (right[what], asked[what]) for what in sorted(asked)}


def _known(trainee: Trainee, calls: list[Call], initial: Tensor) -> Iterator[tuple[str, bool]]:
    batch = batched(calls, initial)
    with torch.autocast("cpu", torch.bfloat16):
        context = lm_pass.hidden(batch.columns[:, :-1], trainee.lm)
        wanted = trainee.wanted(context).argmax(dim=-1)
        text = F.linear(context, trainee.lm.text_linear).argmax(dim=-1)
    for row, call in enumerate(calls):
        for said in call.heard:
            at = said.end + 2
            if said.intent >= 0 and at < batch.wants.shape[1] and batch.wants[row, at] != NEVER:
                yield "wants", bool(wanted[row, at] == said.intent)
        for choice in call.choices:
            yield choice.what, bool(text[row, choice.start - 1] == batch.columns[row, choice.start, 0])
