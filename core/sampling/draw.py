"""Logits -> token: temperature, top-k, top-p and an exponential race, or greedy."""

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.errors import UsageError
from personaplex.core.nn import fused
from personaplex.core.nn.rows import PerRow
from personaplex.core.sampling.noise import exponential

TEXT_STREAM = 0


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. A temperature of 0 is greedy for its streams; a top-k of 0 keeps every token.

    Of the text's top k, `top_p_text` keeps the likeliest that make up this share of them, one at least; 1 keeps all.
    `repetition_penalty` (1 is none) and `no_repeat_ngram` (0 is none) are of the text; see `core.repetition`.
    """

    temp_text: float = 0.7
    top_k_text: int = 25
    temp_audio: float = 0.8
    top_k_audio: int = 250
    greedy: bool = False
    top_p_text: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        for name, value in (("--temp-text", self.temp_text), ("--temp-audio", self.temp_audio)):
            if not 0 <= value < float("inf"):
                raise UsageError(f"{name} is {value}", "give a temperature of 0 (greedy) or more")
        for name, top_k in (("--topk-text", self.top_k_text), ("--topk-audio", self.top_k_audio)):
            if top_k < 0:
                raise UsageError(f"{name} is {top_k}", "give 0 (all tokens) or more")
        if not 0 < self.top_p_text <= 1:
            raise UsageError(f"--topp-text is {self.top_p_text}", "give a share over 0, up to 1 (all tokens)")
        if not 1 <= self.repetition_penalty < float("inf"):
            raise UsageError(f"--repetition-penalty is {self.repetition_penalty}", "give 1 (none) or more, such as 1.2")
        if self.no_repeat_ngram < 0:
            raise UsageError(f"--no-repeat-ngram is {self.no_repeat_ngram}", "give 0 (none) or more, such as 4")

    @property
    def avoids_repetition(self) -> bool:
        """Whether what a call has said matters to its draws."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram > 0

    def choose(self, logits: Tensor, stream: int, seed: Tensor, frame: Tensor) -> Tensor:
        """Tokens int64 [B] from logits [B, vocabulary] of stream 0 (text) or 1-8 (the agent's codebooks).

        `seed` and `frame` (the live frame), int64 [B], alone decide a row's noise.
        """
        text = stream == TEXT_STREAM
        temperature = self.temp_text if text else self.temp_audio
        top_k = self.top_k_text if text else self.top_k_audio
        if self.greedy or temperature == 0:
            return logits.float().argmax(dim=-1)
        probabilities = _probabilities(logits.float() / temperature)
        kept, tokens = probabilities.topk(min(top_k, logits.shape[-1]) or logits.shape[-1], dim=-1)
        if text and self.top_p_text < 1:
            likelier = kept.cumsum(dim=-1) - kept
            kept = kept.where(likelier < self.top_p_text * kept.sum(dim=-1, keepdim=True), 0)
        if fused.is_used(tokens.device):
            from personaplex.core.nn.kernels import triton_rows  # needs Triton, so only where it is used

            if tokens.shape[-1] <= triton_rows.MOST_RACERS:
                return triton_rows.race(kept, tokens, seed, frame, stream)
        winner = (kept / exponential(seed, frame, stream, tokens)).argmax(dim=-1, keepdim=True)
        return tokens.gather(-1, winner)[:, 0]


@PerRow
def _probabilities(logits: Tensor) -> Tensor:
    return torch.softmax(logits, dim=-1)
