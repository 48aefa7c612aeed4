"""Callers: synthesised voices on lines of many kinds."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from personaplex.core.config import SAMPLE_RATE
from personaplex.samples.nano.recipe.render import run

Samples = npt.NDArray[np.float32]

FLITE = ("kal16", "slt", "rms", "awb")
ESPEAK = ("en-us", "en-gb", "en-gb-x-rp", "en-029", "en-gb-scotland", "en-gb-x-gbclan", "en-us-nyc")
TIMBRES = ("", "+f1", "+f2", "+f3", "+f4", "+f5", "+m1", "+m2", "+m3", "+m4", "+m5", "+m6")
TELEPHONE = 8_000  # Hz
QUIET = 1e-3


@dataclass(frozen=True)
class Caller:
    """A voice and its line. `noise` and `level` are root mean squares; `size` plays flite's voices faster or slower."""

    voice: str
    speed: float
    pitch: int
    size: float
    telephone: bool
    noise: float
    level: float

    @classmethod
    def drawn(cls, rng: random.Random) -> "Caller":
        """One of many."""
        flite = rng.random() < 0.4
        return cls(
            voice=rng.choice(FLITE) if flite else rng.choice(ESPEAK) + rng.choice(TIMBRES),
            speed=rng.uniform(0.9, 1.15),
            pitch=rng.randint(30, 65),
            size=rng.uniform(0.88, 1.15),
            telephone=rng.random() < 0.5,
            noise=10 ** (rng.uniform(-65, -38) / 20) if rng.random() < 0.4 else 0.0,
            level=rng.uniform(0.03, 0.14),
        )

    def say(self, text: str) -> Samples:
        """`text` without the silence around it, at 24 kHz and this caller's level."""
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "said.wav")
            if self.voice in FLITE:
                stretch = ["--setf", f"duration_stretch={self.size / self.speed:.3f}"]
                run("flite", *stretch, "-voice", self.voice, "-t", text, "-o", file)
                size = self.size
            else:
                speed = str(round(160 * self.speed))
                run("espeak-ng", "-v", self.voice, "-s", speed, "-p", str(self.pitch), "-w", file, text)
                size = 1.0
            read, rate = soundfile.read(file, dtype="float32")
        samples = soxr.resample(read, rate * size, SAMPLE_RATE)
        if self.telephone:
            samples = soxr.resample(soxr.resample(samples, SAMPLE_RATE, TELEPHONE), TELEPHONE, SAMPLE_RATE)
        loud = np.flatnonzero(np.abs(samples) > QUIET)
        samples = samples[loud[0] : loud[-1] + 1]
        return np.asarray(np.clip(samples * (self.level / np.sqrt(np.mean(samples**2))), -1, 1), np.float32)

    def line(self, samples: int, rng: np.random.Generator) -> Samples:
        """What is heard while nobody speaks."""
        noise = rng.standard_normal(samples)
        if self.telephone:
            noise = np.convolve(noise, np.ones(3) / 3**0.5, "same")
        return np.asarray(self.noise * noise, np.float32)
