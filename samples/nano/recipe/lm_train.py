r"""Stage `lm`: trains the small language model on calls mixed from units.

    python -m torch.distributed.run --nproc-per-node 2 -m personaplex.samples.nano.recipe.lm_train \
        RUN --threads 1 --steps 4000

reads RUN/units.pt and RUN/tokenizer.model. Run again, it goes on from RUN/lm.pt. Beside the agent's text and codes it
learns to tell the caller's words, by a head that is thrown away: a model that is to answer must have heard.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import AGENT, DELAYS, PAD, STREAMS, USER, DepthConfig, LMConfig
from personaplex.core.lm.model import LM
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe import lm_pass, workers
from personaplex.samples.nano.recipe.freeze import CODEC
from personaplex.samples.nano.recipe.mix import Call, Mixer, columns

CONTEXT = 3000
PARTS = ("text", "code0", "codes", "heard")
WEIGHTS = (1.0, 0.7, 1.0, 1.5)
DRILLS = 0.6  # of the calls, those that teach to listen
PAD_WEIGHT = 0.5  # less would make it speak where it should wait
HEARD_PAD_WEIGHT = 0.1
SLIPS = 0.04  # of the agent's codes, those that are read wrong, as the model's own will be now and then
SPOKEN_SHARE = 0.35  # of the columns in which the agent speaks, those whose codes are learned
SILENT_SHARE = 0.05
BUCKET = 8  # batches that are drawn at once and sorted by length


def lm_config(vocabulary: int) -> LMConfig:
    """The shapes, about 11 million parameters."""
    return LMConfig(
        dim=256,
        num_heads=4,
        num_layers=6,
        feedforward=704,
        context=CONTEXT,
        text_vocab=vocabulary,
        audio_vocab=CODEC.codebook_size,
        streams=STREAMS,
        delays=list(DELAYS),
        depth=DepthConfig(dim=128, num_heads=2, num_layers=2, feedforward=256, codebooks=8),
    )


def start(lm: LM) -> None:
    """Random weights that keep activations at their size."""
    for name, value in lm.named_parameters():
        with torch.no_grad():
            if name.endswith("alpha"):
                value.fill_(1)
            elif name in {"emb", "text_emb"}:
                value.normal_(0, 0.25)
            elif name.startswith("depth.") and name.endswith("emb"):
                value.normal_(0, 0.5)
            else:
                gain = 0.3 if name.endswith(("out_proj", "linear_out", "heads_out")) else 1.0
                value.normal_(0, gain / math.sqrt(value.shape[-1]))


@dataclass(frozen=True)
class Batch:
    """columns int64 [B, T, 17]; `heard` int64 [B, T - 1] and `live` bool [B, T - 1] belong to the column behind."""

    columns: Tensor
    heard: Tensor
    live: Tensor


def batched(calls: list[Call], initial: Tensor) -> Batch:
    """Calls side by side, the shorter ones padded behind with the initial tokens."""
    longest = max(len(call.frames) for call in calls)
    together = initial.expand(len(calls), longest, STREAMS).clone()
    heard = torch.full((len(calls), longest), PAD)
    live = torch.zeros(len(calls), longest, dtype=torch.bool)
    for row, call in enumerate(calls):
        length = len(call.frames)
        together[row, :length] = columns(call.frames, initial)
        heard[row, :length] = call.heard
        live[row, call.prompt : length] = True
    return Batch(together, heard[:, 1:], live[:, 1:])


class Trainee(nn.Module):
    """The language model with the head that tells what was heard."""

    silence: Tensor

    def __init__(self, config: LMConfig, silence: Tensor) -> None:
        super().__init__()
        self.lm = LM(config)
        start(self.lm)
        self.told = nn.Linear(config.dim, config.text_vocab)
        self.register_buffer("silence", silence, persistent=False)

    def forward(self, batch: Batch) -> Tensor:
        """The losses of `PARTS`."""
        context = lm_pass.hidden(self._with_slips(batch.columns[:, :-1]), self.lm)[batch.live]
        target = batch.columns[:, 1:][batch.live]
        text = _words_loss(F.linear(context, self.lm.text_linear), target[:, 0], PAD_WEIGHT)
        heard = _words_loss(self.told(context), batch.heard[batch.live], HEARD_PAD_WEIGHT)
        codes = target[:, AGENT]
        shares = torch.where((codes != self.silence).any(dim=1), SPOKEN_SHARE, SILENT_SHARE)
        spoken = torch.rand(len(codes)) < shares
        logits = lm_pass.code_logits(context[spoken], target[spoken, 0], codes[spoken], self.lm.depth)
        each = F.cross_entropy(logits.float().flatten(0, 1), codes[spoken].T.flatten(), reduction="none")
        levels = each.unflatten(0, (8, -1)).mean(dim=1)
        return torch.stack([text, levels[0], levels[1:].mean(), heard])

    def _with_slips(self, columns: Tensor) -> Tensor:
        codes = columns[..., AGENT]
        wrong = torch.randint_like(codes, self.lm.config.audio_vocab)
        slipped = torch.where(torch.rand(codes.shape) < SLIPS, wrong, codes)
        return torch.cat([columns[..., :1], slipped, columns[..., USER]], dim=-1)


def _words_loss(logits: Tensor, target: Tensor, pad_weight: float) -> Tensor:
    weights = torch.where(target == PAD, pad_weight, 1.0)
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    return (weights * losses).sum() / weights.sum()


def batches(mixer: Mixer, initial: Tensor, size: int, seed: tuple[int, ...]) -> Iterator[Batch]:
    """Batches without end, of calls of about the same length."""
    rng = random.Random(repr(seed))  # noqa: S311 - variety, not secrets
    while True:
        calls = sorted(
            (mixer.call(rng, drill=rng.random() < DRILLS) for _ in range(BUCKET * size)),
            key=lambda call: len(call.frames),
        )
        groups = [calls[first : first + size] for first in range(0, len(calls), size)]
        rng.shuffle(groups)
        for group in groups:
            yield batched(group, initial)


def train(run: Path, steps: int, batch: int, rate: float) -> None:
    """Train up to `steps` steps; RUN/lm.pt is written every 50."""
    mixer = Mixer(torch.load(run / "units.pt", weights_only=True), Tokenizer(run / "tokenizer.model"))
    rank, size = workers.join()
    torch.manual_seed(1)
    config = lm_config(mixer.tokenizer.vocab_size)
    initial = torch.tensor([config.text_vocab] + [config.audio_vocab] * (STREAMS - 1))
    trainee = Trainee(config, mixer.silence)
    learned = list(trainee.parameters())
    optimizer = torch.optim.AdamW(learned, lr=rate, betas=(0.9, 0.95), weight_decay=0.02, fused=True)
    step, file = 0, run / "lm.pt"
    if file.exists():
        kept = torch.load(file, weights_only=True)
        trainee.load_state_dict(kept["trainee"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
    torch.manual_seed(1000 * step + rank)
    calls = batches(mixer, initial, batch // size, (step, rank))
    began, told, count = time.monotonic(), torch.zeros(len(PARTS)), 0
    log = (run / ("lm.log" if rank == 0 else f"lm.{rank}.log")).open("a")
    numbers = sum(p.numel() for p in trainee.lm.parameters())
    print(f"# {numbers} parameters, {size} workers, steps {steps} batch {batch} rate {rate}", file=log, flush=True)
    while step < steps:
        for group in optimizer.param_groups:
            group["lr"] = rate * scheduled(step, steps)
        told = told + _step(trainee, next(calls), optimizer, learned)
        step, count = step + 1, count + 1
        if step % 25 == 0:
            means = " ".join(f"{name} {value:.3f}" for name, value in zip(PARTS, told / count, strict=True))
            print(f"{step} {means} s {time.monotonic() - began:.0f}", file=log, flush=True)
            told, count = torch.zeros(len(PARTS)), 0
        if rank == 0 and (step % 50 == 0 or step == steps):
            keep({"trainee": trainee.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)


def _step(trainee: Trainee, batch: Batch, optimizer: torch.optim.Optimizer, learned: list[nn.Parameter]) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        parts: Tensor = trainee(batch)
    optimizer.zero_grad()
    (parts * parts.new_tensor(WEIGHTS)).sum().backward()
    workers.average_gradients(learned)
    nn.utils.clip_grad_norm_(learned, 1.0)
    optimizer.step()
    return parts.detach()


def keep(state: dict[str, Any], file: Path) -> None:
    """Write a file whole or not at all."""
    torch.save(state, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


def scheduled(step: int, steps: int) -> float:
    """Warm-up over 100 steps, then a cosine down to a fiftieth."""
    return min(1.0, (step + 1) / 100) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train(options.run, options.steps, options.batch, options.rate)


if __name__ == "__main__":
    main()
