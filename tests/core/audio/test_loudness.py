import numpy as np
import pyloudnorm
import pytest

from personaplex.core.audio.loudness import normalise_loudness
from personaplex.core.errors import VoiceError

RATE = 24_000


def speechlike(seconds: float) -> np.ndarray:
    """Noise that swells and fades, so that gating has something to do."""
    n = round(seconds * RATE)
    envelope = np.abs(np.sin(np.arange(n) / 5000)) ** 3
    return (np.random.default_rng(0).normal(0, 0.02, n) * envelope).astype(np.float32)


@pytest.mark.parametrize("seconds", [0.4, 1.0, 3.3])
@pytest.mark.parametrize("level", [0.1, 1, 30])
def test_the_same_samples_as_pyloudnorm(seconds: float, level: float) -> None:
    sound = speechlike(seconds) * np.float32(level)
    loudness = pyloudnorm.Meter(RATE).integrated_loudness(sound)
    expected = pyloudnorm.normalize.loudness(sound, loudness, -24.0).astype(np.float32)
    result = normalise_loudness(sound, RATE, name="a.wav")
    assert result.dtype == np.float32
    assert np.array_equal(result, expected)


def test_the_target_is_met_and_the_input_kept() -> None:
    sound = speechlike(2)
    before = sound.copy()
    result = normalise_loudness(sound, RATE, -30.0, name="a.wav")
    assert pyloudnorm.Meter(RATE).integrated_loudness(result) == pytest.approx(-30, abs=1e-3)
    assert np.array_equal(sound, before)


def test_peaks_may_pass_full_scale() -> None:
    sound = np.zeros(RATE, np.float32)
    sound[::2400] = 0.02
    assert normalise_loudness(sound, RATE, name="a.wav").max() > 1


@pytest.mark.parametrize(
    ("sound", "what"),
    [
        (speechlike(1)[: int(0.4 * RATE) - 1], "lasts only 0.400 s"),
        (speechlike(1)[:0], "lasts only 0.000 s"),
        (np.zeros(RATE, np.float32), "is silent"),
        (speechlike(1) * np.float32(1e-5), "is silent, or too quiet"),
        (np.full(RATE, np.nan, np.float32), "not finite"),
    ],
)
def test_no_loudness(sound: np.ndarray, what: str) -> None:
    with pytest.raises(VoiceError, match=what) as caught:
        normalise_loudness(sound, RATE, name="voices/a.wav")
    assert caught.value.what.startswith("voices/a.wav: ")
    assert caught.value.mend
