"""SEANet: the codec's convolutional encoder and decoder (arXiv 2009.02095, as Mimi uses it, arXiv 2410.00037)."""

from collections.abc import Iterable, Iterator

from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import MimiConfig
from personaplex.core.nn.conv import CausalConv1d, CausalConvTranspose1d


class ResidualBlock(nn.Module):
    """x + conv1(ELU(conv3(ELU(x)))), half as wide inside."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.narrow = CausalConv1d(dim, dim // 2, 3)
        self.widen = CausalConv1d(dim // 2, dim, 1)

    def forward(self, x: Tensor, states: Iterator[Tensor], active: Tensor) -> Tensor:
        """[B, dim, T] -> [B, dim, T]."""
        y = self.narrow(F.elu(x), next(states), active)
        out: Tensor = x + self.widen(F.elu(y), next(states), active)
        return out


class EncoderStage(nn.Module):
    """A residual block, then down by `ratio` to twice the width."""

    def __init__(self, dim: int, ratio: int) -> None:
        super().__init__()
        self.block = ResidualBlock(dim)
        self.down = CausalConv1d(dim, 2 * dim, 2 * ratio, ratio)

    def forward(self, x: Tensor, states: Iterator[Tensor], active: Tensor) -> Tensor:
        """[B, dim, T] -> [B, 2 * dim, T / ratio]."""
        x = self.block(x, states, active)
        out: Tensor = self.down(F.elu(x), next(states), active)
        return out


class DecoderStage(nn.Module):
    """Up by `ratio` to half the width, then a residual block."""

    def __init__(self, dim: int, ratio: int) -> None:
        super().__init__()
        self.up = CausalConvTranspose1d(dim, dim // 2, 2 * ratio, ratio)
        self.block = ResidualBlock(dim // 2)

    def forward(self, x: Tensor, states: Iterator[Tensor], active: Tensor) -> Tensor:
        """[B, dim, T] -> [B, dim / 2, T * ratio]."""
        x = self.up(F.elu(x), next(states), active)
        out: Tensor = self.block(x, states, active)
        return out


class SEANet(nn.Module):
    """What the encoder and the decoder share: a convolution, stages, a convolution, and one state for each in it."""

    def __init__(self, first: CausalConv1d, stages: Iterable[nn.Module], last: CausalConv1d) -> None:
        super().__init__()
        self.first = first
        self.stages = nn.ModuleList(stages)
        self.last = last

    def zeros(self, rows: int) -> list[Tensor]:
        """The convolutions' states before the first chunk, in order of use."""
        convolutions = (m for m in self.modules() if isinstance(m, CausalConv1d | CausalConvTranspose1d))
        return [m.zeros(rows) for m in convolutions]

    def forward(self, x: Tensor, states: list[Tensor], active: Tensor) -> Tensor:
        """[B, channels, T] -> [B, channels, T at the other rate]; an encoder's T is a multiple of prod(ratios)."""
        past = iter(states)
        x = self.first(x, next(past), active)
        for stage in self.stages:
            x = stage(x, past, active)
        out: Tensor = self.last(F.elu(x), next(past), active)
        return out


class SEANetEncoder(SEANet):
    """Samples [B, 1, T] to features [B, dim, T / prod(ratios)]."""

    def __init__(self, config: MimiConfig) -> None:
        widths = [config.filters * 2**n for n in range(len(config.ratios) + 1)]
        stages = map(EncoderStage, widths, reversed(config.ratios))
        super().__init__(CausalConv1d(1, widths[0], 7), stages, CausalConv1d(widths[-1], config.dim, 3))


class SEANetDecoder(SEANet):
    """Features [B, dim, T] to samples [B, 1, T * prod(ratios)]."""

    def __init__(self, config: MimiConfig) -> None:
        widths = [config.filters * 2**n for n in range(len(config.ratios), -1, -1)]
        stages = map(DecoderStage, widths, config.ratios)
        super().__init__(CausalConv1d(config.dim, widths[0], 7), stages, CausalConv1d(widths[-1], 1, 3))
