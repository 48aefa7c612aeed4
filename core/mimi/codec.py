"""Mimi: samples to codes and back, 12.5 frames a second, chunk by chunk (arXiv 2410.00037)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import FRAME_SAMPLES, MimiConfig
from personaplex.core.mimi.quantizer import SplitQuantizer
from personaplex.core.mimi.seanet import SEANetDecoder, SEANetEncoder
from personaplex.core.mimi.transformer import LATENTS_PER_FRAME, MimiTransformer
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.conv import CausalConv1d, CausalConvTranspose1d

CHUNK_FRAMES = 64
FRAME_MULTIPLE = 4


@dataclass
class CodecState:
    """One direction's state: the past of every convolution and the transformer's cache, row by row."""

    seanet: list[Tensor]  # [B, C, past] each
    resample: Tensor  # [B, dim, 2]
    cache: KVCache

    def reset(self, rows: Sequence[int]) -> None:
        """Start these rows afresh."""
        for tensor in (*self.seanet, self.resample):
            tensor[list(rows)] = 0
        self.cache.reset(rows)


class Mimi(nn.Module):
    """The codec, in float32; encoder and decoder have states of their own."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        dim = config.dim
        self.encoder = SEANetEncoder(config)
        self.encoder_transformer = MimiTransformer(config)
        self.downsample = CausalConv1d(dim, dim, 2 * LATENTS_PER_FRAME, LATENTS_PER_FRAME, bias=False)
        self.quantizer = SplitQuantizer(config.codebooks, dim, config.codebook_dim, config.codebook_size)
        self.upsample = CausalConvTranspose1d(
            dim, dim, 2 * LATENTS_PER_FRAME, LATENTS_PER_FRAME, groups=dim, bias=False
        )
        self.decoder_transformer = MimiTransformer(config)
        self.decoder = SEANetDecoder(config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.downsample.weight.device

    @torch.inference_mode()
    def encoder_zeros(self, rows: int = 1) -> CodecState:
        """The encoder's state before the first frame."""
        cache = self.encoder_transformer.zeros(rows, self.device)
        return CodecState(self.encoder.zeros(rows), self.downsample.zeros(rows), cache)

    @torch.inference_mode()
    def decoder_zeros(self, rows: int = 1) -> CodecState:
        """The decoder's state before the first frame."""
        cache = self.decoder_transformer.zeros(rows, self.device)
        return CodecState(self.decoder.zeros(rows), self.upsample.zeros(rows), cache)

    @torch.inference_mode()
    def latents(self, samples: Tensor, state: CodecState, active: Sequence[bool] | None = None) -> Tensor:
        """Whole frames of samples [B, 1, F * 1920] -> what is quantised, [B, dim, F]."""
        on = [True] * len(samples) if active is None else active
        mask = torch.tensor(on, device=self.device)
        # The downsampling convolution alone repeats the first value to its left; the others see zeros.
        fresh = (state.cache.length == 0) & mask
        x = self.encoder(samples, state.seanet, mask)
        x = self.encoder_transformer(x, state.cache, on)
        state.resample.copy_(torch.where(fresh[:, None, None], x[..., :1], state.resample))
        out: Tensor = self.downsample(x, state.resample, mask)
        return out

    @torch.inference_mode()
    def encode(self, samples: Tensor, state: CodecState, active: Sequence[bool] | None = None) -> Tensor:
        """Whole frames of samples [B, 1, F * 1920] -> codes int64 [B, K, F]."""
        return self.quantizer.encode(self.latents(samples, state, active))

    @torch.inference_mode()
    def decode(self, codes: Tensor, state: CodecState, active: Sequence[bool] | None = None) -> Tensor:
        """Codes int64 [B, K, F] -> samples [B, 1, F * 1920]."""
        on = [True] * len(codes) if active is None else active
        mask = torch.tensor(on, device=self.device)
        x = self.upsample(self.quantizer.decode(codes), state.resample, mask)
        x = self.decoder_transformer(x, state.cache, on)
        out: Tensor = self.decoder(x, state.seanet, mask)
        return out

    def encode_call(self, samples: Tensor) -> Tensor:
        """A whole recording [N] -> codes int64 [F, K], the last frame zero-padded.

        It is cut into chunks at fixed places, so the codes depend on the recording alone.
        """
        frames = -(-len(samples) // FRAME_SAMPLES)
        padded = F.pad(samples, (0, _round_up(frames) * FRAME_SAMPLES - len(samples)))
        state = self.encoder_zeros()
        chunks = padded[None, None].to(self.device).split(CHUNK_FRAMES * FRAME_SAMPLES, dim=-1)
        return torch.cat([self.encode(chunk, state) for chunk in chunks], dim=-1)[0, :, :frames].T.contiguous()

    def decode_call(self, codes: Tensor) -> Tensor:
        """A whole call's codes int64 [F, K] -> samples float32 [F * 1920], on the host."""
        frames = len(codes)
        padded = F.pad(codes.T[None].to(self.device), (0, _round_up(frames) - frames))
        state = self.decoder_zeros()
        samples = torch.cat([self.decode(chunk, state).cpu() for chunk in padded.split(CHUNK_FRAMES, dim=-1)], dim=-1)
        return samples[0, 0, : frames * FRAME_SAMPLES]


def _round_up(frames: int) -> int:
    """Frames with padding behind: matrix kernels round alike for any number of threads at multiples of four rows."""
    return -(-frames // FRAME_MULTIPLE) * FRAME_MULTIPLE
