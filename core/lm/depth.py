"""The depth transformer: a frame's agent codes one after the other, every step with weights of its own."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import CODEBOOKS, LMConfig
from personaplex.core.nn.gating import gated_feedforward
from personaplex.core.nn.norm import RMSNorm
from personaplex.core.nn.packed import attend_steps
from personaplex.core.nn.products import Packable, linear

Choose = Callable[[Tensor, int], Tensor]


class DepthLayer(Packable):
    """A pre-norm layer whose projections have a leading step dimension K; its norms are shared by all steps."""

    stacks = ("in_proj", "out_proj", "linear_in", "linear_out")

    def __init__(self, dim: int, feedforward: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(dim)
        self.norm2 = RMSNorm(dim)
        self.in_proj = nn.Parameter(torch.empty(CODEBOOKS, 3 * dim, dim))
        self.out_proj = nn.Parameter(torch.empty(CODEBOOKS, dim, dim))
        self.linear_in = nn.Parameter(torch.empty(CODEBOOKS, 2 * feedforward, dim))
        self.linear_out = nn.Parameter(torch.empty(CODEBOOKS, dim, feedforward))

    def forward(
        self, x: Tensor, delta: Tensor | None, keys: Tensor, values: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """[B, 1, dim] and what is to be added to it -> the same of the layer's output.

        It attends to the steps so far: `keys` and `values` are [B, H, K, head_dim].
        """
        x, normed = self.norm1.after(x, delta)
        seen = attend_steps(linear(normed, self.in_proj[step]), keys, values, step)
        x, normed = self.norm2.after(x, linear(seen, self.out_proj[step]))
        return x, gated_feedforward(normed, self.linear_in[step], self.linear_out[step])


class DepthTransformer(Packable):
    """K = 8 steps over the layers; steps 8-15 of a longer checkpoint predict the user's codes, which are given."""

    matrices = ("from_temporal",)
    stacks = ("heads_out",)

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        depth = config.depth
        self.heads = depth.num_heads
        self.from_temporal = nn.Parameter(torch.empty(CODEBOOKS * depth.dim, config.dim))
        self.text_emb = nn.Parameter(torch.empty(config.text_vocab + 1, depth.dim))
        self.emb = nn.Parameter(torch.empty(CODEBOOKS - 1, config.audio_vocab + 1, depth.dim))
        self.layers = nn.ModuleList(DepthLayer(depth.dim, depth.feedforward) for _ in range(depth.num_layers))
        self.heads_out = nn.Parameter(torch.empty(CODEBOOKS, config.audio_vocab, depth.dim))

    def forward(self, hidden: Tensor, text: Tensor, forced: Tensor, choose: Choose) -> Tensor:
        """The agent's codes int64 [B, K] of one column.

        `hidden` [B, dim] is the temporal output, `text` int64 [B] the column's text token. A code of `forced`
        [B, K] that is not negative stands, and the next step is fed with it; the others come from
        `choose(logits [B, audio_vocab], codebook)`.
        """
        context = linear(hidden, self.from_temporal).unflatten(-1, (CODEBOOKS, -1))
        keys = hidden.new_empty(len(self.layers), len(hidden), self.heads, CODEBOOKS, context.shape[-1] // self.heads)
        values = torch.empty_like(keys)
        codes: list[Tensor] = []
        is_free = forced < 0
        for step in range(CODEBOOKS):
            previous = F.embedding(codes[-1], self.emb[step - 1]) if codes else F.embedding(text, self.text_emb)
            x, delta = context[:, step, None], previous[:, None]
            for index, layer in enumerate(self.layers):
                x, delta = layer(x, delta, keys[index], values[index], step)
            chosen = choose(linear((x + delta)[:, 0], self.heads_out[step]), step)
            codes.append(torch.where(is_free[:, step], chosen, forced[:, step]))
        return torch.stack(codes, dim=1)
