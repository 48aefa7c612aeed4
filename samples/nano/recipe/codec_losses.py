"""How far a re-synthesised sound is from the original: log-mel distances at several window lengths."""

import torch
from torch import Tensor, nn

from personaplex.core.config import SAMPLE_RATE

WINDOWS = ((2048, 80, 512), (1024, 80, 256), (512, 64, 192), (256, 32, 128))  # samples, mel bands, hop
FINE = (1024, 256)  # windows whose every bin is compared too
FLOOR = 1e-3


def mel_filters(size: int, bands: int, highest: float = SAMPLE_RATE / 2) -> Tensor:
    """Triangles on the mel scale, [size / 2 + 1, bands], each of area one where it is wider than a bin."""
    frequencies = torch.linspace(0, SAMPLE_RATE / 2, size // 2 + 1)
    edges = torch.linspace(0, 2595 * torch.log10(torch.tensor(1 + highest / 700)).item(), bands + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    up = (frequencies[:, None] - hertz[:-2]) / (hertz[1:-1] - hertz[:-2])
    down = (hertz[2:] - frequencies[:, None]) / (hertz[2:] - hertz[1:-1])
    filters = torch.minimum(up, down).clamp(min=0)
    return filters / filters.sum(dim=0).clamp(min=0.5)


class Spectra(nn.Module):
    """Log-mel and log-magnitude distances between two sounds, summed over window lengths."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands, _ in WINDOWS:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"mel{size}", mel_filters(size, bands), persistent=False)

    def forward(self, made: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Two sounds [B, T] -> the summed mel distance and the summed distance of the fine spectra."""
        mels, fines = made.new_zeros(()), made.new_zeros(())
        for size, _, hop in WINDOWS:
            with torch.no_grad():
                wanted, wanted_mel = self._spectrum(real, size, hop)
            got, got_mel = self._spectrum(made, size, hop)
            mels = mels + (got_mel - wanted_mel).abs().mean()
            if size in FINE:
                fines = fines + (got - wanted).abs().mean() / wanted.mean().clamp(min=1e-3)
        return mels, fines

    def _spectrum(self, sound: Tensor, size: int, hop: int) -> tuple[Tensor, Tensor]:
        """Magnitudes [B, bins, frames] and log-mel [B, frames, bands]."""
        window = getattr(self, f"window{size}")
        spectrum = torch.stft(sound, size, hop, window=window * (32 / window.sum()), return_complex=True).abs()
        mel = spectrum.transpose(1, 2) @ getattr(self, f"mel{size}")
        return spectrum, (mel.float() + FLOOR).log()
