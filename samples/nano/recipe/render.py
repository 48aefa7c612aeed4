"""Stage `data`: sentences spoken by synthesisers, with the phone of each 20 ms where flite tells it.

    python -m personaplex.samples.nano.recipe.render DATA --count 4500 --seed 11

writes DATA.sound.npy (int16, 24 kHz, end to end), DATA.labels.npy and DATA.json. Needs flite and espeak-ng. With
--without OTHER, no sentence of OTHER.json is spoken: what a codec is judged on must not be what it was trained on.
"""

import argparse
import json
import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from personaplex.core.config import SAMPLE_RATE
from personaplex.samples.nano.recipe.texts import drawn

LABEL_SAMPLES = 480
NO_LABEL = -1
PHONES = [
    "aa",
    "ae",
    "ah",
    "ao",
    "aw",
    "ax",
    "ay",
    "b",
    "ch",
    "d",
    "dh",
    "eh",
    "er",
    "ey",
    "f",
    "g",
    "hh",
    "ih",
    "iy",
    "jh",
    "k",
    "l",
    "m",
    "n",
    "ng",
    "ow",
    "oy",
    "p",
    "pau",
    "r",
    "s",
    "sh",
    "t",
    "th",
    "uh",
    "uw",
    "v",
    "w",
    "y",
    "z",
    "zh",
]
LEVEL = 0.06  # root mean square
ESPEAK = ("en-us", "en-gb", "en-us+f2", "en-us+f4", "en-us+m3", "en-gb+f3", "en-gb-x-rp")


@dataclass(frozen=True)
class Voice:
    """A flite voice, made another by playing it `size` times as fast, at a mean pitch in Hz of its own."""

    base: str
    pitch: float | None = None
    size: float = 1.0


VOICES = {
    "kal16": Voice("kal16", 105),
    "low": Voice("kal16", 95, 0.90),
    "high": Voice("kal16", 165, 1.17),
    "slt": Voice("slt"),
    "rms": Voice("rms"),
    "awb": Voice("awb"),
}
SHARES = {"kal16": 8, "low": 2, "high": 3, "slt": 4, "rms": 1, "awb": 1, "espeak": 1}


@dataclass(frozen=True)
class Spoken:
    """A sentence's samples float32 [N] at 24 kHz, and its phones with their ends in seconds (none by espeak-ng)."""

    text: str
    voice: str
    samples: npt.NDArray[np.float32]
    phones: list[tuple[str, float]]

    def labels(self) -> npt.NDArray[np.int8]:
        """The phone's number of each 20 ms, [N / 480] rounded up."""
        labels = np.full(-(-len(self.samples) // LABEL_SAMPLES), NO_LABEL, np.int8)
        begin = 0
        for phone, end in self.phones:
            labels[begin : round(end * SAMPLE_RATE / LABEL_SAMPLES)] = PHONES.index(phone)
            begin = round(end * SAMPLE_RATE / LABEL_SAMPLES)
        if self.phones:
            labels[begin:] = PHONES.index("pau")
        return labels


def speak(text: str, voice: str, seed: int) -> Spoken:
    """One sentence; its rate and pitch vary a little with the seed."""
    rng = random.Random(seed)  # noqa: S311 - variety, not secrets
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "spoken.wav")
        if voice == "espeak":
            speed, pitch = str(rng.randint(140, 180)), str(rng.randint(35, 65))
            run("espeak-ng", "-v", rng.choice(ESPEAK), "-s", speed, "-p", pitch, "-w", file, text)
            size, phones = 1.0, []
        else:
            made = VOICES[voice]
            size, stretch = made.size, rng.uniform(0.92, 1.1) * made.size
            options = ["--setf", f"duration_stretch={stretch:.3f}"]
            if made.pitch:
                options += ["--setf", f"int_f0_target_mean={made.pitch / size * rng.uniform(0.96, 1.04):.1f}"]
            told = run("flite", *options, "-voice", made.base, "-psdur", "-t", text, "-o", file)
            phones = [(phone, float(end) / size) for phone, end in (unit.rsplit(":", 1) for unit in told.split())]
        read, rate = soundfile.read(file, dtype="float32")
    samples = soxr.resample(read, rate * size, SAMPLE_RATE).astype(np.float32)
    samples *= LEVEL / (np.sqrt(np.mean(samples**2)) + 1e-9)
    return Spoken(text, voice, np.clip(samples, -1, 1), phones)


def run(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def render(texts: list[str], seed: int, voice: str | None = None) -> list[Spoken]:
    """Every text, by the one voice or by voices drawn with their `SHARES`."""
    rng = random.Random(seed + 1)  # noqa: S311
    voices = [voice or rng.choices(list(SHARES), list(SHARES.values()))[0] for _ in texts]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(speak, texts, voices, range(seed * 100_000, seed * 100_000 + len(texts))))


def write(spoken: list[Spoken], path: Path) -> None:
    """The three files of a data set."""
    items: list[dict[str, Any]] = []
    start = 0
    for one in spoken:
        items.append({"text": one.text, "voice": one.voice, "start": start, "length": len(one.samples)})
        start += len(one.samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path.with_suffix(".sound.npy"), np.concatenate([(s.samples * 32767).astype(np.int16) for s in spoken]))
    np.save(path.with_suffix(".labels.npy"), np.concatenate([s.labels() for s in spoken]))
    path.with_suffix(".json").write_text(json.dumps({"phones": PHONES, "items": items}))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--count", type=int, default=4500)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--voice", choices=list(SHARES), help="this voice alone")
    parser.add_argument("--without", type=Path, help="a data set none of whose sentences is spoken")
    options = parser.parse_args()
    known = json.loads(options.without.with_suffix(".json").read_text())["items"] if options.without else []
    texts = drawn(options.count, options.seed, [item["text"] for item in known])
    write(render(texts, options.seed, options.voice), options.data)


if __name__ == "__main__":
    main()
