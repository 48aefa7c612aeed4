"""Against loops: text tokens that a call has said are made less likely, or forbidden where they repeat a phrase."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.config import EPAD, PAD


@dataclass(frozen=True, eq=False)
class Said:
    """The text tokens that each row's call has said, oldest first; PAD and EPAD, which say nothing, are left out.

    `tokens` is int64 [B, L] of which a row's first `count`, int64 [B], mean something. L is at least the longest
    call's frames.
    """

    tokens: Tensor
    count: Tensor

    @classmethod
    def zeros(cls, rows: int, length: int, device: torch.device) -> "Said":
        """Rows that have said nothing."""
        tokens = torch.zeros(rows, length, dtype=torch.int64, device=device)
        return cls(tokens, torch.zeros(rows, dtype=torch.int64, device=device))

    def advance(self, token: Tensor, active: Tensor) -> None:
        """Take the text token [B] of the rows of the mask `active`, bool [B]. On the device alone."""
        spoken = active & (token != PAD) & (token != EPAD)
        place = self.count[:, None]
        self.tokens.scatter_(1, place, torch.where(spoken[:, None], token[:, None], self.tokens.gather(1, place)))
        self.count.add_(spoken)

    def reset(self, rows: Sequence[int]) -> None:
        """Forget what these rows have said."""
        for row in rows:  # a list as an index would be copied to the device, which waits for it
            self.count[row] = 0


def discourage(logits: Tensor, said: Said, penalty: float, ngram: int) -> Tensor:
    """Text logits [B, vocabulary] in float32, less of what has been said; PAD and EPAD stay as they are.

    A token that was said has its logit divided by `penalty` where it is positive, else multiplied (Keskar et al.,
    "CTRL", arXiv 1909.05858, section 4.1, with the usual change for negative logits). With `ngram` n over 0, a token
    that would make the last n said tokens equal to n that were said before gets no chance.
    """
    scores = logits.float()
    if penalty != 1:
        seen = _marked(said.tokens, _places(said) < said.count[:, None], scores)
        scores = torch.where(seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)
    if 0 < ngram <= said.tokens.shape[1]:
        scores = scores.masked_fill(_repeating(said, ngram, scores), -torch.inf)
    return scores


def _places(said: Said) -> Tensor:
    return torch.arange(said.tokens.shape[1], device=said.tokens.device)


def _marked(tokens: Tensor, valid: Tensor, scores: Tensor) -> Tensor:
    """The vocabulary's entries, bool [B, vocabulary], that stand in `tokens` [B, n] where `valid` [B, n]."""
    vocabulary = scores.shape[-1]
    marks = torch.zeros(len(scores), vocabulary + 1, dtype=torch.bool, device=scores.device)
    return marks.scatter_(1, torch.where(valid, tokens, vocabulary), True)[:, :vocabulary]


def _repeating(said: Said, ngram: int, scores: Tensor) -> Tensor:
    """The tokens, bool [B, vocabulary], that would end an n-gram which was said before."""
    windows = said.tokens.unfold(1, ngram, 1)
    tail = said.count[:, None] - (ngram - 1) + torch.arange(ngram - 1, device=scores.device)
    suffix = said.tokens.gather(1, tail.clamp(min=0))
    whole = _places(said)[: windows.shape[1]] + ngram <= said.count[:, None]
    return _marked(windows[..., -1], whole & (windows[..., :-1] == suffix[:, None]).all(dim=-1), scores)
