"""What is trained: the small language model, beside it two heads that are thrown away, and their losses.

The heads tell the caller's words and what the caller wants: a model that is to answer must have heard.
"""

import math
from dataclasses import dataclass
from enum import Enum

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
PAD_WEIGHT, EPAD_WEIGHT = 0.5, 1.0  # less for PAD would make it speak where it should wait
WORD_WEIGHT, CHOSEN_WEIGHT = 3.0, 10.0
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


class Lesson(Enum):
    """What a batch teaches: what callers say alone, what is told from prompts alone, or calls."""

    HEARING = "hearing"
    READING = "reading"
    CALLS = "calls"


@dataclass(frozen=True)
class Batch:
    """columns int64 [B, T, 17]. Of the columns behind, [B, T - 1]: `live` bool, and `weights` of their text.

    heard: frames int64 [H, L] of columns in the flattened [B, T - 1], their counts [H], words int64 [H, W], counts [H].
    wants: int64 [B, T - 1], an intent or `NEVER`.
    """

    lesson: Lesson
    columns: Tensor
    live: Tensor
    weights: Tensor
    frames: Tensor
    lengths: Tensor
    words: Tensor
    counts: Tensor
    wants: Tensor


def batched(calls: list[Call], initial: Tensor, lesson: Lesson = Lesson.CALLS) -> Batch:
    """Calls side by side, the shorter ones padded behind with the initial tokens."""
    longest = max(len(call.frames) for call in calls)
    together = initial.expand(len(calls), longest, STREAMS).clone()
    live = torch.zeros(len(calls), longest, dtype=torch.bool)
    chosen = torch.zeros(len(calls), longest, dtype=torch.bool)
    wants = torch.full((len(calls), longest), NEVER)
    frames, words = [torch.zeros(0, dtype=torch.int64)], [torch.zeros(0, dtype=torch.int64)]
    for row, call in enumerate(calls):
        length = len(call.frames)
        together[row, :length] = columns(call.frames, initial)
        live[row, call.prompt : length] = True
        for choice in call.choices:
            chosen[row, choice.start : choice.end] = True
        for said in call.heard:
            last = min(length - 1, said.end + WORDS_AFTER)
            frames.append(torch.arange(said.start, last) + row * (longest - 1))
            words.append(torch.tensor(said.words))
            if said.intent >= 0:
                wants[row, said.end + WANTS_AT.start : min(length - 1, said.end + WANTS_AT.stop)] = said.intent
    weights = _text_weights(together[..., 0], chosen, live, others=lesson is Lesson.CALLS)
    return Batch(
        lesson,
        together,
        live[:, 1:],
        weights[:, 1:],
        nn.utils.rnn.pad_sequence(frames, batch_first=True)[1:],
        torch.tensor([len(part) for part in frames[1:]]),
        nn.utils.rnn.pad_sequence(words, batch_first=True)[1:],
        torch.tensor([len(part) for part in words[1:]]),
        wants[:, :-1],
    )


def _text_weights(text: Tensor, chosen: Tensor, live: Tensor, *, others: bool) -> Tensor:
    """How much the tokens of a text stream [B, T] weigh; without `others`, those that are chosen alone."""
    is_word = (text != PAD) & (text != EPAD)
    weights = torch.where(is_word & chosen, CHOSEN_WEIGHT, 0.0)
    if others:
        silent = torch.where(text == PAD, PAD_WEIGHT, EPAD_WEIGHT)
        weights = torch.where(is_word, weights.clamp(min=WORD_WEIGHT), silent)
    return weights * live


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

    def forward(self, batch: Batch) -> Tensor:
        """The losses of `PARTS`, 0 where the batch's lesson has none."""
        context = lm_pass.hidden(self._with_slips(batch.columns[:, :-1]), self.lm)
        nothing = context.new_zeros((), dtype=torch.float32)
        parts = dict.fromkeys(PARTS, nothing)
        if batch.lesson is not Lesson.HEARING:
            parts["text"] = self._text(context, batch)
        if batch.lesson is not Lesson.READING:
            parts["words"], parts["wants"] = self._heard(context, batch)
        if batch.lesson is Lesson.CALLS:
            parts["code0"], parts["codes"] = self._codes(context[batch.live], batch.columns[:, 1:][batch.live])
        return torch.stack([parts[name] for name in PARTS])

    def _heard(self, context: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        wants = F.cross_entropy(self.wanted(context).float().flatten(0, 1), batch.wants.flatten(), ignore_index=NEVER)
        told = self.told(context.flatten(0, 1)[batch.frames]).float().log_softmax(dim=-1).transpose(0, 1)
        words = F.ctc_loss(told, batch.words, batch.lengths, batch.counts, blank=PAD, zero_infinity=True)
        return words, wants

    def _text(self, context: Tensor, batch: Batch) -> Tensor:
        weighed = batch.weights > 0
        logits = F.linear(context[weighed], self.lm.text_linear)
        losses = F.cross_entropy(logits.float(), batch.columns[:, 1:, 0][weighed], reduction="none")
        return (batch.weights[weighed] * losses).sum() / batch.weights.sum()

    def _codes(self, context: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        codes = target[:, AGENT]
        shares = torch.where((codes != self.silence).any(dim=1), SPOKEN_SHARE, SILENT_SHARE)
        spoken = torch.rand(len(codes)) < shares
        logits = lm_pass.code_logits(context[spoken], target[spoken, 0], codes[spoken], self.lm.depth)
        each = F.cross_entropy(logits.float().flatten(0, 1), codes[spoken].T.flatten(), reduction="none")
        levels = each.unflatten(0, (8, -1)).mean(dim=1)
        return levels[0], levels[1:].mean()

    def _with_slips(self, columns: Tensor) -> Tensor:
        slipped = columns.clone()
        for part, share in ((AGENT, SLIPS), (USER, NOISE)):
            codes = columns[..., part]
            wrong = torch.randint_like(codes, self.lm.config.audio_vocab)
            slipped[..., part] = torch.where(torch.rand(codes.shape) < share, wrong, codes)
        return slipped if self.training else columns
