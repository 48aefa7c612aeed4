from pathlib import Path

import numpy as np
import pytest
import soundfile

from personaplex.core.audio.power import WINDOWS, window_peaks, window_power
from personaplex.core.errors import InputError


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 24_000, 44_100])
@pytest.mark.parametrize("seconds", [0.005, 0.02, 1.013, 9.5])
def test_each_window_has_the_mean_square_of_its_samples(tmp_path: Path, rate: int, seconds: float) -> None:
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, round(seconds * rate)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
    power = window_power(tmp_path / "a.wav")
    starts = [int(number * rate / WINDOWS + 0.5) for number in range(len(power) + 1)]
    expected = [np.mean(np.square(part.astype(float))) for part in np.split(samples, starts[1:-1])]
    assert np.allclose(power, expected)
    assert starts[-2] < len(samples) <= starts[-1]
    highest = [np.abs(part).max() for part in np.split(samples, starts[1:-1])]
    assert window_peaks(tmp_path / "a.wav").tolist() == highest


def test_a_part_and_a_channel_are_those_asked_for(tmp_path: Path) -> None:
    samples = np.zeros((24_000, 2), np.float32)
    samples[12_000:18_000, 1] = 0.5
    soundfile.write(tmp_path / "a.wav", samples, 24_000)
    assert not window_power(tmp_path / "a.wav", channel="left").any()
    power = window_power(tmp_path / "a.wav", channel="right", offset=0.4, duration=0.2)
    assert np.allclose(power, [0] * 5 + [0.25] * 5)


def test_what_can_not_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="check the path"):
        window_power(tmp_path / "a.wav")
