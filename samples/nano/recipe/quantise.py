"""Training of the residual quantizer: straight-through codes, codewords as running means, dead ones replaced."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.mimi.quantizer import ResidualQuantizer, SplitQuantizer
from personaplex.samples.nano.recipe import workers

DECAY = 0.99
DEAD = 0.02  # draws a step, by running mean, under which a codeword is put elsewhere


@dataclass
class Quantised:
    """A batch through the quantizer."""

    first: Tensor  # [B, F, dim]: the first codebook's part
    whole: Tensor  # [B, F, dim]
    commitment: Tensor  # how far the latents are from their codewords, relative to their own size
    distinct: float  # codewords used, of those drawn


def quantise(latents: Tensor, quantizer: SplitQuantizer, *, learn: bool) -> Quantised:
    """Latents [B, F, dim] -> their quantised form, gradients passed straight through; `learn` moves the codewords."""
    first, loss_a, distinct_a = _chain(latents, quantizer.first, learn)
    rest, loss_b, distinct_b = _chain(latents, quantizer.rest, learn)
    return Quantised(first, first + rest, loss_a + loss_b, (distinct_a + distinct_b) / 2)


def project(latents: Tensor, part: ResidualQuantizer) -> Tensor:
    """[B, F, dim] -> [B * F, codebook_dim]."""
    projected: Tensor = F.linear(latents, part.input_proj[..., 0]).float().flatten(0, 1)
    return projected


def unproject(words: Tensor, part: ResidualQuantizer, like: Tensor) -> Tensor:
    """[B * F, codebook_dim] -> [B, F, dim]."""
    whole: Tensor = F.linear(words, part.output_proj[..., 0]).unflatten(0, like.shape[:2])
    return whole


def unquantised(latents: Tensor, quantizer: SplitQuantizer) -> tuple[Tensor, Tensor]:
    """Latents through both projections without codewords: (the first's part, the whole), [B, F, dim]."""
    first, rest = (unproject(project(latents, q), q, latents) for q in (quantizer.first, quantizer.rest))
    return first, first + rest


def _chain(latents: Tensor, part: ResidualQuantizer, learn: bool) -> tuple[Tensor, Tensor, float]:
    projected = project(latents, part)
    residual, mine = workers.gather(projected.detach())
    total = torch.zeros_like(residual)
    distinct = 0.0
    count = len(part.embedding_sum)
    for level in range(count):
        words = part.codebook(level).detach()
        codes = torch.cdist(residual, words).argmin(dim=-1)
        if learn:
            _move(part, level, residual, codes)
        total = total + words[codes]
        residual = residual - words[codes]
        distinct += len(codes.unique()) / min(len(codes), len(words)) / count
    total = total[mine]
    scale = projected.detach().square().mean().clamp(min=1e-6)
    commitment = (projected - total).square().mean() / scale
    through = projected + (total - projected).detach()
    return unproject(through, part, latents), commitment, distinct


@torch.no_grad()
def _move(part: ResidualQuantizer, level: int, residual: Tensor, codes: Tensor) -> None:
    """Move the codewords towards what they stand for, and the unused ones onto vectors of this batch."""
    sums, usage = part.embedding_sum[level], part.cluster_usage[level]
    counts = torch.zeros_like(usage).index_add_(0, codes, torch.ones_like(residual[:, 0]))
    usage.mul_(DECAY).add_(counts, alpha=1 - DECAY)
    sums.mul_(DECAY).add_(torch.zeros_like(sums).index_add_(0, codes, residual), alpha=1 - DECAY)
    dead = (usage < DEAD).nonzero()[:, 0]
    if len(dead):
        dead = dead[torch.randperm(len(dead))[: max(1, len(residual) // 8)]]
        sums[dead] = residual[torch.randint(len(residual), (len(dead),))]
        usage[dead] = 1.0
        sums[dead] *= usage[dead, None]


@torch.no_grad()
def start_from(latents: Tensor, quantizer: SplitQuantizer, rounds: int = 8) -> None:
    """Put the codewords where latents [N, 1, dim] are: k-means, level by level."""
    for part in (quantizer.first, quantizer.rest):
        residual = project(latents, part)
        for level in range(len(part.embedding_sum)):
            size = part.embedding_sum.shape[1]
            words = residual[torch.randperm(len(residual))[:size]].clone()
            for _ in range(rounds):
                codes = torch.cdist(residual, words).argmin(dim=-1)
                counts = torch.zeros(size).index_add_(0, codes, torch.ones(len(codes)))
                sums = torch.zeros_like(words).index_add_(0, codes, residual)
                words = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], words)
            usage = (counts / len(codes) * 192).clamp(min=0.1)
            part.embedding_sum[level] = words * usage[:, None]
            part.cluster_usage[level] = usage
            residual = residual - words[torch.cdist(residual, words).argmin(dim=-1)]
