"""Makes the callers' recordings and the agents' voice prompts with espeak-ng.

    python -m personaplex.samples.make_calls

writes every clip beside this file. Equal versions of espeak-ng, soxr and libsndfile give equal bytes.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

Samples = np.ndarray[Any, np.dtype[np.float64]]

_PEAK_DBFS = -3.0
_LINE_DBFS = -60.0
_QUIET = 1e-3


@dataclass(frozen=True)
class Voice:
    """An espeak-ng voice, its words a minute and its pitch (0 to 99)."""

    name: str
    speed: int
    pitch: int


@dataclass(frozen=True)
class Clip:
    """One recording: `lead` seconds of silence, then each sentence of `script` and the pause after it in seconds."""

    path: str
    voice: Voice
    rate: int
    subtype: str
    script: tuple[tuple[str, float], ...]
    lead: float = 1.0
    hold_line: bool = False
    noise_dbfs: float | None = None


CLIPS = (
    Clip(
        "calls/clinic.wav",
        Voice("en-gb+f2", speed=155, pitch=60),
        16_000,
        "PCM_16",
        (
            ("Hello, this is Nora Field. I need to move my appointment.", 3.0),
            ("It was on Tuesday, but I have to work then.", 2.5),
            ("Do you have anything on Friday morning?", 2.5),
        ),
    ),
    Clip(
        "calls/restaurant.wav",
        Voice("en-us+m3", speed=165, pitch=42),
        24_000,
        "PCM_16",
        (
            ("Hi there. Can I book a table for six tonight?", 2.5),
            ("And is there something for a guest who eats no nuts?", 2.0),
        ),
    ),
    Clip(
        "calls/bank_card.wav",
        Voice("en-gb-x-rp", speed=150, pitch=35),
        8_000,
        "ULAW",
        (
            ("Good evening. I think I left my card on a train.", 3.0),
            ("My name is Oliver Stone-Grey. Could you block it, please?", 3.0),
            ("Thank you. How long does a new one take?", 3.0),
        ),
    ),
    Clip(
        "calls/internet.wav",
        Voice("en-us-nyc+f4", speed=170, pitch=55),
        8_000,
        "PCM_16",
        (
            ("Yeah, hi. My internet has been down since this morning.", 3.0),
            ("I already turned the box off and on again, twice.", 2.5),
            ("So when will it work?", 2.0),
        ),
        hold_line=True,
    ),
    Clip(
        "calls/parcel.flac",
        Voice("en-029+m2", speed=150, pitch=48),
        16_000,
        "PCM_16",
        (
            ("Hello. My parcel should have come last week.", 2.5),
            ("The number? One moment, I will look for it.", 9.0),
            ("Here it is. Four, seven, one, nine.", 2.5),
        ),
    ),
    Clip(
        "calls/repair.wav",
        Voice("en-gb-scotland+m1", speed=160, pitch=40),
        44_100,
        "PCM_24",
        (("How much would you charge to mend a fridge?", 2.5),),
    ),
    Clip(
        "calls/hotel.wav",
        Voice("en-gb-x-gbcwmd+f3", speed=175, pitch=65),
        16_000,
        "PCM_16",
        (
            ("Sorry, it is loud here. Is breakfast part of the price?", 2.5),
            ("And how late can we check in?", 2.5),
        ),
        noise_dbfs=-36.0,
    ),
    Clip(
        "calls/pharmacy.wav",
        Voice("en-gb-x-gbclan+m4", speed=140, pitch=30),
        16_000,
        "PCM_16",
        (("Are you open on Sunday, and have you got my tablets in?", 3.0),),
    ),
    Clip(
        "voices/agent_f.wav",
        Voice("en-us+f3", speed=170, pitch=58),
        24_000,
        "PCM_16",
        (("Good morning, and thank you for waiting. My name is Mia. Tell me, what can I do for you today?", 0.0),),
        lead=0.0,
    ),
    Clip(
        "voices/agent_m.wav",
        Voice("en-gb+m7", speed=160, pitch=40),
        24_000,
        "PCM_16",
        (("Good afternoon, you are through to Tom. Take your time, and tell me from the start what happened.", 0.0),),
        lead=0.0,
    ),
)


def speak(voice: Voice, sentence: str, rate: int) -> Samples:
    """`sentence` at `rate` Hz, without the silence around it: [N]."""
    espeak = shutil.which("espeak-ng")
    if espeak is None:
        raise FileNotFoundError("espeak-ng is not installed: the recordings can't be made without it")
    options = ["-v", voice.name, "-s", str(voice.speed), "-p", str(voice.pitch), "-a", "80"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sentence.wav"
        subprocess.run([espeak, *options, "-w", str(file), sentence], check=True)  # noqa: S603
        samples, own_rate = soundfile.read(file, dtype="float64")
    loud = np.flatnonzero(np.abs(samples) > _QUIET)
    return np.asarray(soxr.resample(samples[loud[0] : loud[-1] + 1], own_rate, rate, quality="VHQ"))


def recording(clip: Clip) -> Samples:
    """The whole clip with the caller's peak at -3 dBFS: [N], or [N, 2] with the hold line on the right."""
    parts = [_silence(clip.lead, clip.rate)]
    for sentence, pause in clip.script:
        parts += [speak(clip.voice, sentence, clip.rate), _silence(pause, clip.rate)]
    caller = np.concatenate(parts)
    if clip.noise_dbfs is not None:
        caller = caller / np.abs(caller).max() + _noise(len(caller), clip.noise_dbfs)
    caller = caller * _amplitude(_PEAK_DBFS) / np.abs(caller).max()
    return np.stack([caller, _hold_line(len(caller), clip.rate)], axis=1) if clip.hold_line else caller


def _silence(seconds: float, rate: int) -> Samples:
    return np.zeros(round(seconds * rate))


def _amplitude(dbfs: float) -> float:
    return float(10 ** (dbfs / 20))


def _noise(length: int, dbfs: float) -> Samples:
    """White noise of that RMS, the same on every run: [length]."""
    return np.random.default_rng(1).standard_normal(length) * _amplitude(dbfs)


def _hold_line(length: int, rate: int) -> Samples:
    """Faint noise, and every 4 s a soft beep of 0.25 s at 425 Hz: [length]."""
    time = np.arange(length) / rate
    since_beep = time % 4.0
    # The half sine is an envelope: a beep that starts at once would click.
    envelope = np.where(since_beep < 0.25, np.sin(np.pi * since_beep / 0.25), 0.0)
    return _amplitude(-24.0) * envelope * np.sin(2 * np.pi * 425 * time) + _noise(length, _LINE_DBFS)


def write(clip: Clip, folder: Path) -> None:
    """Makes `clip` and writes it below `folder`."""
    file = folder / clip.path
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(file, recording(clip), clip.rate, subtype=clip.subtype)


if __name__ == "__main__":
    for clip in CLIPS:
        write(clip, Path(__file__).parent)
