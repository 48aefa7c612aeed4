"""What is trained: the small language model, beside it two heads that are thrown away, and their losses.

The heads tell the caller's words and what the caller wants: a model that is to answer must have heard.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import AGENT, DELAYS, EPAD, PAD, STREAMS, USER, DepthConfig, LMConfig
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.samples.nano.recipe import lm_pass
from personaplex.samples.nano.recipe.freeze import CODEC
from personaplex.samples.nano.recipe.mix import Call, columns

CONTEXT = 3000
PARTS = ("text", "code0", "codes", "words", "wants")
WEIGHTS = (1.0, 0.7, 1.0, 0.5, 0.5)
WORD_WEIGHT, PAD_WEIGHT = 3.0, 0.5  # less for PAD would make it speak where it should wait
SLIPS = 0.04  # of the agent's codes, those that are read wrong, as the model's own will be now and then
NOISE = 0.06  # of the caller's codes
SPOKEN_SHARE = 0.35  # of the columns in which the agent speaks, those whose codes are learned
SILENT_SHARE = 0.05
WORDS_AFTER = 4  # frames behind an utterance in which its words may still be told
WANTS_AT = range(4)  # frames behind an utterance in which its intent is told
EMBEDDED = 0.35  # root mean square of a frame of codes, embedded
NEVER = -100


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


@torch.no_grad()
def start(lm: LM) -> None:
    """Random weights that keep activations at their size."""
    for name, value in lm.named_parameters():
        if name.endswith("alpha"):
            value.fill_(1)
        elif name in {"emb", "text_emb"}:
            value.normal_(0, 0.25)
        elif name.startswith("depth.") and name.endswith("emb"):
            value.normal_(0, 0.5)
        else:
            gain = 0.3 if name.endswith(("out_proj", "linear_out", "heads_out")) else 1.0
            value.normal_(0, gain / math.sqrt(value.shape[-1]))


@torch.no_grad()
def embed_as(mimi: Mimi, lm: LM) -> None:
    """Embed codes as the codec's words, turned: what sounds alike starts alike, and the sum over codebooks is a sound.

    Random vectors would have to learn that, from far more speech than there is. The caller's and the agent's first
    codebook and the rest of theirs have directions of their own, as far as there are.
    """
    size = mimi.quantizer.first.embedding_sum.shape[-1]
    turned = nn.init.orthogonal_(torch.empty(lm.emb.shape[-1], lm.emb.shape[-1]))
    for side in range(2):
        for place, part in enumerate((mimi.quantizer.first, mimi.quantizer.rest)):
            words = torch.stack([part.codebook(level) for level in range(len(part.embedding_sum))])
            words = words - words.mean(dim=1, keepdim=True)
            scale = EMBEDDED * (len(turned) / 2) ** 0.5 / words.square().sum(dim=-1).mean(dim=1).sum().sqrt()
            first = (2 * side + place) * size % len(turned)
            streams = slice(8 * side + place, 8 * side + place + len(words))
            lm.emb[streams, : words.shape[1]] = scale * words @ turned[first : first + size]


@dataclass(frozen=True)
class Batch:
    """columns int64 [B, T, 17]; live bool [B, T - 1] of the columns behind; what is heard, each in a row [H].

    heard: frames int64 [H, L] of columns in the flattened [B, T - 1], their counts [H], words int64 [H, W], counts [H].
    wants: int64 [B, T - 1], an intent or `NEVER`.
    """

    columns: Tensor
    live: Tensor
    frames: Tensor
    lengths: Tensor
    words: Tensor
    counts: Tensor
    wants: Tensor


def batched(calls: list[Call], initial: Tensor) -> Batch:
    """Calls side by side, the shorter ones padded behind with the initial tokens."""
    longest = max(len(call.frames) for call in calls)
    together = initial.expand(len(calls), longest, STREAMS).clone()
    live = torch.zeros(len(calls), longest, dtype=torch.bool)
    wants = torch.full((len(calls), longest), NEVER)
    frames, words = [], []
    for row, call in enumerate(calls):
        length = len(call.frames)
        together[row, :length] = columns(call.frames, initial)
        live[row, call.prompt : length] = True
        for said in call.heard:
            last = min(length - 1, said.end + WORDS_AFTER)
            frames.append(torch.arange(said.start, last) + row * (longest - 1))
            words.append(torch.tensor(said.words))
            if said.intent >= 0:
                wants[row, said.end + WANTS_AT.start : min(length - 1, said.end + WANTS_AT.stop)] = said.intent
    return Batch(
        together,
        live[:, 1:],
        nn.utils.rnn.pad_sequence(frames, batch_first=True),
        torch.tensor([len(part) for part in frames]),
        nn.utils.rnn.pad_sequence(words, batch_first=True),
        torch.tensor([len(part) for part in words]),
        wants[:, :-1],
    )


class Trainee(nn.Module):
    """The language model with the heads that tell what was heard."""

    silence: Tensor

    def __init__(self, config: LMConfig, silence: Tensor, intents: int) -> None:
        super().__init__()
        self.lm = LM(config)
        start(self.lm)
        self.told = nn.Linear(config.dim, config.text_vocab)
        self.wanted = nn.Linear(config.dim, intents)
        self.register_buffer("silence", silence, persistent=False)

    def forward(self, batch: Batch, *, answers: bool = True) -> Tensor:
        """The losses of `PARTS`; without `answers`, of what was heard alone."""
        context = lm_pass.hidden(self._with_slips(batch.columns[:, :-1]), self.lm)
        heard = self._heard(context, batch)
        if not answers:
            return torch.cat([heard.new_zeros(3), heard])
        return torch.cat([self._answered(context[batch.live], batch.columns[:, 1:][batch.live]), heard])

    def _heard(self, context: Tensor, batch: Batch) -> Tensor:
        wants = F.cross_entropy(self.wanted(context).float().flatten(0, 1), batch.wants.flatten(), ignore_index=NEVER)
        told = self.told(context.flatten(0, 1)[batch.frames]).float().log_softmax(dim=-1).transpose(0, 1)
        words = F.ctc_loss(told, batch.words, batch.lengths, batch.counts, blank=PAD, zero_infinity=True)
        return torch.stack([words, wants])

    def _answered(self, context: Tensor, target: Tensor) -> Tensor:
        text = _text_loss(F.linear(context, self.lm.text_linear), target[:, 0])
        codes = target[:, AGENT]
        shares = torch.where((codes != self.silence).any(dim=1), SPOKEN_SHARE, SILENT_SHARE)
        spoken = torch.rand(len(codes)) < shares
        logits = lm_pass.code_logits(context[spoken], target[spoken, 0], codes[spoken], self.lm.depth)
        each = F.cross_entropy(logits.float().flatten(0, 1), codes[spoken].T.flatten(), reduction="none")
        levels = each.unflatten(0, (8, -1)).mean(dim=1)
        return torch.stack([text, levels[0], levels[1:].mean()])

    def _with_slips(self, columns: Tensor) -> Tensor:
        slipped = columns.clone()
        for part, share in ((AGENT, SLIPS), (USER, NOISE)):
            codes = columns[..., part]
            wrong = torch.randint_like(codes, self.lm.config.audio_vocab)
            slipped[..., part] = torch.where(torch.rand(codes.shape) < share, wrong, codes)
        return slipped if self.training else columns


def _text_loss(logits: Tensor, target: Tensor) -> Tensor:
    weights = torch.where(target == PAD, PAD_WEIGHT, torch.where(target == EPAD, 1.0, WORD_WEIGHT))
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    return (weights * losses).sum() / weights.sum()
