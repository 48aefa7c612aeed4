"""What is trained: the small language model, beside it two heads that are thrown away, and their losses.

The heads tell the caller's words and what the caller wants: a model that is to answer must have heard. Two attention
heads are shown where to look in the prompt, and one to say what it sees there, which the model alone does not find out
in so short a training.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import AGENT, DELAYS, EPAD, PAD, STREAMS, DepthConfig, LMConfig
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.samples.nano.recipe import domain, lm_pass, looking, slips
from personaplex.samples.nano.recipe.freeze import CODEC
from personaplex.samples.nano.recipe.mix import columns
from personaplex.samples.nano.recipe.timeline import Call

CONTEXT = 3000
PARTS = ("text", "code0", "codes", "words", "wants", "looks", "copies")
WEIGHTS = (1.0, 0.7, 1.0, 0.5, 1.0, 0.5, 1.0)
GREETS_WEIGHT = 30.0  # the moment at which the agent speaks first, which is hard to count out and must not be missed
PAD_WEIGHT, EPAD_WEIGHT = 0.5, 1.0  # less for PAD would make it speak where it should wait
WORD_WEIGHT, CHOSEN_WEIGHT = 3.0, 20.0
DECIDED = 8  # frames after which the rest of an answer follows
WORD_SIZE = 4.0  # of what embeds a word, beside what embeds sounds: a small voice is lost in what the layers write
INTENTS = len(domain.intents())
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
            if name == "text_emb":
                value[_is_word(torch.arange(len(value)))] *= WORD_SIZE
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
    wants: int64 [B, T - 1], an intent or `NEVER`. looks: int64 [N, 4], call, head, column and the column it looks at.
    told: bool [B, T - 1], columns in which the prompt has words. served: bool [B, I], the intents asked of a company.
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
    looks: Tensor
    told: Tensor
    served: Tensor


def batched(calls: list[Call], initial: Tensor, lesson: Lesson = Lesson.CALLS) -> Batch:
    """Calls side by side, the shorter ones padded behind with the initial tokens."""
    longest = max(len(call.frames) for call in calls)
    together = initial.expand(len(calls), longest, STREAMS).clone()
    live = torch.zeros(len(calls), longest, dtype=torch.bool)
    chosen = torch.zeros(len(calls), longest, dtype=torch.bool)
    wants = torch.full((len(calls), longest), NEVER)
    looks = [torch.zeros(0, 4, dtype=torch.int64)]
    frames, words = [torch.zeros(0, dtype=torch.int64)], [torch.zeros(0, dtype=torch.int64)]
    for row, call in enumerate(calls):
        length = len(call.frames)
        together[row, :length] = columns(call.frames, initial)
        live[row, call.prompt : length] = True
        for choice in call.choices:
            decided = choice.start + DECIDED if choice.what == "answer" else choice.end
            chosen[row, choice.start : min(decided, choice.end)] = True
        looks.append(looking.looks(row, call))
        for said in call.heard:
            last = min(length - 1, said.end + WORDS_AFTER)
            frames.append(torch.arange(said.start, last) + row * (longest - 1))
            words.append(torch.tensor(said.words))
            if said.intent >= 0:
                wants[row, said.end + WANTS_AT.start : min(length - 1, said.end + WANTS_AT.stop)] = said.intent
    weights = _text_weights(together[..., 0], chosen, live, others=lesson is Lesson.CALLS)
    for row, call in enumerate(calls):
        if lesson is Lesson.CALLS and call.greets >= 0:
            weights[row, call.greets] = GREETS_WEIGHT
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
        torch.cat(looks),
        (~live & (together[..., 0] != initial[0]) & _is_word(together[..., 0]))[:, :-1],
        torch.stack([torch.isin(torch.arange(INTENTS), torch.tensor(call.served)) for call in calls]),
    )


def _text_weights(text: Tensor, chosen: Tensor, live: Tensor, *, others: bool) -> Tensor:
    """How much the tokens of a text stream [B, T] weigh; without `others`, words alone and what is behind chosen ones.

    If that weighed less than the full stop in its place, names would be cut short.
    """
    is_word = _is_word(text)
    weights = torch.where(chosen, CHOSEN_WEIGHT, WORD_WEIGHT)
    silent = torch.where(text == PAD, PAD_WEIGHT, EPAD_WEIGHT) if others else torch.zeros(())
    weights = torch.where(is_word, weights, silent)
    ends = torch.zeros_like(is_word)
    ends[:, 1:] = is_word[:, :-1] & ~is_word[:, 1:]
    return torch.where(ends & chosen, CHOSEN_WEIGHT, weights) * live


def _is_word(text: Tensor) -> Tensor:
    return (text != PAD) & (text != EPAD)


class Trainee(nn.Module):
    """The language model with the heads that tell what was heard."""

    silence: Tensor
    near: Tensor

    def __init__(self, config: LMConfig, silence: Tensor, intents: int) -> None:
        super().__init__()
        self.lm = LM(config)
        start(self.lm)
        self.told = nn.Linear(config.dim, config.text_vocab)
        self.wanted = nn.Linear(config.dim, intents)
        self.register_buffer("silence", silence, persistent=False)
        alone = torch.arange(config.audio_vocab)[None, :, None]
        self.register_buffer("near", alone.expand(8, -1, slips.NEAR), persistent=False)

    @torch.no_grad()
    def embed_as(self, mimi: Mimi) -> None:
        """Embed codes as the codec's words, and know which are alike."""
        embed_as(mimi, self.lm)
        levels = [
            part.codebook(level)
            for part in (mimi.quantizer.first, mimi.quantizer.rest)
            for level in range(len(part.embedding_sum))
        ]
        self.near = torch.stack(
            [torch.cdist(words, words).topk(1 + slips.NEAR, largest=False).indices[:, 1:] for words in levels]
        )

    def forward(self, batch: Batch) -> Tensor:
        """The losses of `PARTS`, 0 where the batch's lesson has none."""
        shown: dict[str, Tensor] = {}

        def watch(layer: int, query: Tensor, key: Tensor, value: Tensor) -> None:
            if layer == self.lm.config.num_layers // 2 and batch.lesson is not Lesson.HEARING:
                shown["looks"] = looking.look_loss(batch.looks, query, key)
                layers: Any = self.lm.temporal.layers
                out_proj = layers[layer].out_proj
                shown["copies"] = self._copy_loss(batch, out_proj, value) + self._kind_loss(batch, out_proj, value)

        context = lm_pass.hidden(self._told(batch), self.lm, watch)
        nothing = context.new_zeros((), dtype=torch.float32)
        parts = dict.fromkeys(PARTS, nothing) | shown
        if batch.lesson is not Lesson.HEARING:
            parts["text"] = self._text(context, batch)
        if batch.lesson is not Lesson.READING:
            parts["words"], parts["wants"] = self._heard(context, batch)
        if batch.lesson is Lesson.CALLS:
            parts["code0"], parts["codes"] = self._codes(context[batch.live], batch.columns[:, 1:][batch.live])
        return torch.stack([parts[name] for name in PARTS])

    def _told(self, batch: Batch) -> Tensor:
        columns = batch.columns[:, :-1]
        if not self.training:
            return columns
        alone, deaf = (batch.lesson is lesson for lesson in (Lesson.HEARING, Lesson.READING))
        return slips.with_slips(columns, batch.live, self.near, self.lm.config.text_vocab, alone=alone, deaf=deaf)

    def _copy_loss(self, batch: Batch, out_proj: Tensor, value: Tensor) -> Tensor:
        """How little of the prompt's words the head that looks for what is said would say, if it looked at them."""
        said = looking.written(looking.SAYS_HEAD, value[:, looking.SAYS_HEAD][batch.told], out_proj)
        return F.cross_entropy(F.linear(said, self.lm.text_linear).float(), batch.columns[:, :-1, 0][batch.told])

    def _kind_loss(self, batch: Batch, out_proj: Tensor, value: Tensor) -> Tensor:
        """How little the head that looks for the company's kind would tell what is asked of such a company."""
        row, _, _, source = batch.looks[batch.looks[:, 1] == looking.KIND_HEAD].T
        told = looking.written(looking.KIND_HEAD, value[row, looking.KIND_HEAD, source], out_proj)
        asked: Tensor = self.wanted(told).float().log_softmax(dim=-1)
        return -asked.masked_fill(~batch.served[row], -torch.inf).logsumexp(dim=-1).mean()

    def _heard(self, context: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        asked = batch.wants != NEVER
        wants = F.cross_entropy(self.wanted(context[asked]).float(), batch.wants[asked], reduction="sum")
        wants = wants / asked.sum().clamp(min=1)
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
