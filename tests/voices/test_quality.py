"""What is told about a recording before a voice is made of it."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from personaplex.core.audio.reading import AudioInfo, Recording
from personaplex.voices.quality import doubts

RATE = 24_000


def told(samples: npt.NDArray[np.float64], *warnings: str) -> list[str]:
    info = AudioInfo(Path("a.wav"), "", RATE, 1, "mix", len(samples) / RATE)
    return list(doubts(Recording(samples.astype(np.float32), info, warnings)))


def noise(seconds: float) -> npt.NDArray[np.float64]:
    return 0.1 * np.random.default_rng(0).standard_normal(round(seconds * RATE))


@pytest.mark.parametrize("seconds", [3, 20])
def test_a_good_recording_raises_no_doubt(seconds: float) -> None:
    assert told(noise(seconds)) == []


def test_length() -> None:
    assert told(noise(2.9)) == ["lasts 2.9 s; 3 to 20 s of speech make a better voice"]
    assert told(noise(20.1)) == ["lasts 20.1 s; what is over 20 s only takes room from the call, so cut it"]


def test_clipped_samples_are_counted() -> None:
    samples = noise(4)
    samples[100:107] = 1
    samples[200:203] = -1.5
    assert told(samples) == ["samples at full scale: 10; if they are clipped, record it again at a lower level"]


@pytest.mark.parametrize(("silent", "told_of"), [(1.9, []), (2.6, ["64% of it is silence; cut it out"])])
def test_silence(silent: float, told_of: list[str]) -> None:
    samples = noise(4)
    samples[: round(silent * RATE)] *= 0.001
    assert told(samples) == told_of


def test_what_was_met_in_reading_is_passed_on() -> None:
    assert told(noise(4), "the file is cut short") == ["the file is cut short"]
