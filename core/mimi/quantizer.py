"""Split residual vector quantizer: one codebook for the first code, a residual chain for the others."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ResidualQuantizer(nn.Module):
    """`count` codebooks over one projection of the latent, each coding what the ones before it left."""

    def __init__(self, count: int, dim: int, codebook_dim: int, size: int) -> None:
        super().__init__()
        self.input_proj = nn.Parameter(torch.empty(codebook_dim, dim, 1))
        self.output_proj = nn.Parameter(torch.empty(dim, codebook_dim, 1))
        self.embedding_sum = nn.Parameter(torch.empty(count, size, codebook_dim))
        self.cluster_usage = nn.Parameter(torch.empty(count, size))

    def codebook(self, index: int) -> Tensor:
        """The codewords [size, codebook_dim]: a running mean, kept as a sum and a count."""
        return self.embedding_sum[index] / self.cluster_usage[index].clamp(min=1e-5)[:, None]

    def encode(self, latents: Tensor) -> Tensor:
        """[B, dim, T] -> codes int64 [B, count, T]."""
        residual = F.conv1d(latents, self.input_proj).transpose(1, 2)
        codes = []
        for index in range(len(self.embedding_sum)):
            words = self.codebook(index)
            codes.append(torch.cdist(residual, words[None]).argmin(dim=-1))
            residual = residual - words[codes[-1]]
        return torch.stack(codes, dim=1)

    def decode(self, codes: Tensor) -> Tensor:
        """int64 [B, count, T] -> [B, dim, T]."""
        words = [self.codebook(index)[codes[:, index]] for index in range(len(self.embedding_sum))]
        return F.conv1d(torch.stack(words).sum(dim=0).transpose(1, 2), self.output_proj)


class SplitQuantizer(nn.Module):
    """The first codebook and the rest each see the same latent; their decodings add up."""

    def __init__(self, codebooks: int, dim: int, codebook_dim: int, size: int) -> None:
        super().__init__()
        self.first = ResidualQuantizer(1, dim, codebook_dim, size)
        self.rest = ResidualQuantizer(codebooks - 1, dim, codebook_dim, size)

    def encode(self, latents: Tensor) -> Tensor:
        """[B, dim, T] -> codes int64 [B, codebooks, T]."""
        return torch.cat([self.first.encode(latents), self.rest.encode(latents)], dim=1)

    def decode(self, codes: Tensor) -> Tensor:
        """int64 [B, codebooks, T] -> [B, dim, T]."""
        return self.first.decode(codes[:, :1]) + self.rest.decode(codes[:, 1:])
