"""The language model: embeddings, temporal and depth transformers, and `step`, one frame of every call."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import AGENT, STREAMS, USER, LMConfig
from personaplex.core.lm.depth import Choose, DepthTransformer
from personaplex.core.lm.state import FREE, LMState
from personaplex.core.lm.temporal import TemporalTransformer
from personaplex.core.nn import fused
from personaplex.core.nn.products import Matrix, Packable, linear

PREFILL_CHUNK = 256


class LM(Packable):
    """Text and agent audio tokens from the streams of a full-duplex call."""

    matrices = ("text_linear",)

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.emb = nn.Parameter(torch.empty(STREAMS - 1, config.audio_vocab + 1, config.dim))
        self.text_emb = nn.Parameter(torch.empty(config.text_vocab + 1, config.dim))
        self.temporal = TemporalTransformer(config)
        self.text_linear = nn.Parameter(torch.empty(config.text_vocab, config.dim))
        self.depth = DepthTransformer(config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.emb.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type."""
        return self.emb.dtype

    def embed(self, columns: Tensor) -> Tensor:
        """Sum of the embeddings of columns int64 [..., 17] -> [..., dim], added in the reference's order."""
        if columns.ndim == 2 and fused.is_used(self.device):
            from personaplex.core.nn.kernels import triton_rows  # needs Triton, so only where it is used

            return triton_rows.embed(columns, self.emb, self.text_emb)
        total = F.embedding(columns[..., 1], self.emb[0])
        for stream in range(2, STREAMS):
            total = total + F.embedding(columns[..., stream], self.emb[stream - 1])
        return total + F.embedding(columns[..., 0], self.text_emb)

    @torch.inference_mode()
    def zeros(self, rows: int, positions: int) -> LMState:
        """The state of `rows` idle rows for calls of at most `positions` positions."""
        return LMState.zeros(rows, self.temporal.zeros(rows, positions), self.device)

    @torch.inference_mode()
    def prefill(self, inputs: Tensor, column: Tensor, held: Tensor) -> LMState:
        """A one-row state that has read `inputs` [T, dim] and goes on with `column` [17] and `held` [17].

        All tokens of a prompt are forced, so no depth step and no sampling is needed.
        """
        self._check_packed()
        state = self.zeros(1, max(1, len(inputs)))
        for chunk in inputs[None].split(PREFILL_CHUNK, dim=1):
            self.temporal.prefill(chunk, state.cache)
        state.column[0] = column
        state.held[0] = held
        return state

    def _check_packed(self) -> None:
        """A ValueError for a model on a CPU whose products could depend on a row's neighbours."""
        if self.device.type == "cpu" and not isinstance(self.text_linear, Matrix):
            raise ValueError("a model on a CPU must be packed before it runs: see core.nn.products.pack")

    @torch.inference_mode()
    def step(self, state: LMState, user: Tensor, active: Tensor, choose: Choose) -> Tensor:
        """One live call c of the active rows: read column c - 1, fill column c; returns frame c - 1, int64 [B, 9].

        `user` int64 [B, 8] are the user's codes of frame c, `active` is bool [B]. `choose(logits [B, vocabulary],
        stream)` draws the tokens [B] of a stream: 0 is text, 1-8 are the agent's codebooks. It works on the device
        alone, so that it can be captured as a graph: the caller counts the position with `state.cache.count`.
        """
        self._check_packed()
        hidden = self.temporal.step(self.embed(state.column)[:, None], state.cache)[:, 0]
        text = choose(linear(hidden, self.text_linear), 0)
        agent = self.depth(hidden, text, state.held[:, AGENT], lambda logits, step: choose(logits, 1 + step))
        # Codebook 0 is not delayed; the user's others wait in `held` for one column.
        column = torch.cat([text[:, None], agent, user[:, :1], state.held[:, USER][:, 1:]], dim=1)
        frame = torch.cat([state.column[:, :2], agent[:, 1:]], dim=1)
        held = torch.full_like(state.held, FREE)
        held[:, USER] = user
        state.advance(column, held, active)
        return frame
