"""Stage `units`: everything that is said in calls, rendered and encoded once; calls are put together from their codes.

    python -m personaplex.samples.nano.recipe.units RUN/mimi.safetensors RUN/units.pt

The codec sees about a second back, so an utterance's codes behind a second of its line are those it has in a call.
"""

import argparse
import random
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import torch
from torch import Tensor

from personaplex.core.audio.loudness import normalise_loudness
from personaplex.core.config import FRAME_SAMPLES, SAMPLE_RATE
from personaplex.core.mimi.codec import Mimi
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.callers import Caller
from personaplex.samples.nano.recipe.freeze import read_codec
from personaplex.samples.nano.recipe.render import Spoken, speak
from personaplex.samples.nano.recipe.words import word_starts

Samples = npt.NDArray[np.float32]

AGENTS = {"kal16": "nano_m", "high": "nano_f"}  # and their names as they come with the model
SAMPLES = {"kal16": "agent_m", "high": "agent_f"}  # the voices that the samples' recordings ask for
RECORDINGS = Path(domain.__file__).parents[2] / "voices"
SHIPPED = "Good morning. How are you today?"
OTHERS = (
    "Hello, thank you for waiting. What can I do for you today?",
    "One moment please, I will have a look.",
    "Your order is on its way to you.",
)
LEAD = 18  # frames of silence before what is encoded
TAIL = 2
SEED = 5
CALLERS, HELD_OUT = 400, 10
SCRAMBLED_COUNT = 8
LINE_FRAMES = 50


def trimmed(spoken: Spoken) -> tuple[Samples, float]:
    """The samples from 40 ms before the first phone to 80 ms behind the last, and the second they start at."""
    heard = [place for place, (phone, _) in enumerate(spoken.phones) if phone != "pau"]
    begins = spoken.phones[heard[0] - 1][1] if heard[0] else 0.0
    first, last = max(0.0, begins - 0.04), spoken.phones[heard[-1]][1] + 0.08
    return spoken.samples[round(first * SAMPLE_RATE) : round(last * SAMPLE_RATE)], first


def encoded(samples: Samples, mimi: Mimi, line: Samples | None = None) -> Tensor:
    """Codes int16 [F, 8] of an utterance that starts with its first frame and ends `TAIL` frames behind it."""
    frames = LEAD + -(-len(samples) // FRAME_SAMPLES) + TAIL
    whole = np.zeros(frames * FRAME_SAMPLES, np.float32) if line is None else line[: frames * FRAME_SAMPLES].copy()
    whole[LEAD * FRAME_SAMPLES :][: len(samples)] += samples
    with torch.inference_mode():
        return mimi.encode_call(torch.from_numpy(whole))[LEAD:].short().clone()


def agent_utterance(text: str, voice: str, mimi: Mimi) -> dict[str, Any]:
    """What the agent says: its codes, and the frame in which each word starts."""
    spoken = speak(text, voice, SEED)
    samples, first = trimmed(spoken)
    frames = [int((start - first) * SAMPLE_RATE / FRAME_SAMPLES) for start in word_starts(text, spoken.phones)]
    return {"codes": encoded(samples, mimi), "starts": frames}


def voice_codes(samples: Samples, mimi: Mimi) -> Tensor:
    """A recording as a voice prompt, as the engine makes it of a WAV: int16 [V, 8]."""
    return mimi.encode_call(torch.from_numpy(normalise_loudness(samples, SAMPLE_RATE, name="voice"))).short()


def prompt_sound(voice: str, text: str = SHIPPED) -> Samples:
    """The recording of an agent's voice."""
    return trimmed(speak(text, voice, SEED))[0]


def prompt_codes(voice: str, mimi: Mimi) -> list[Tensor]:
    """Ways to ask for a voice, the one that comes with the model first: its own recordings and a sample's."""
    sounds = [prompt_sound(voice, text) for text in (SHIPPED, *OTHERS)]
    if voice in SAMPLES:
        sounds.append(soundfile.read(RECORDINGS / f"{SAMPLES[voice]}.wav", dtype="float32")[0])
    return [voice_codes(sound, mimi) for sound in sounds]


def caller_part(mimi: Mimi, number: int, *, held_out: bool) -> dict[str, Any]:
    """A caller, with something to say for every intent, and words to be heard.

    In training each utterance is another speaker's on the same line: what is heard shall depend on no voice.
    """
    rng = random.Random(f"{held_out} {number}")  # noqa: S311 - variety, not secrets
    caller = Caller.drawn(rng)
    noise = np.random.default_rng([number, held_out])
    said = []
    scrambled = () if held_out else ((domain.SCRAMBLED, domain.scrambled(rng)) for _ in range(SCRAMBLED_COUNT))
    wanted = [(index, rng.choice(one.ways(held_out=held_out))) for index, one in enumerate(domain.intents())]
    for index, asked in [*wanted, *((domain.MURMUR, murmur) for murmur in domain.MURMURS), *scrambled]:
        openers = domain.FIRST_OPENERS if rng.random() < 0.5 else domain.LATER_OPENERS
        text = f"{rng.choice(openers)} {asked}".strip() if index >= 0 else asked
        offset = np.zeros(rng.randrange(FRAME_SAMPLES), np.float32)
        other = replace(Caller.drawn(rng), telephone=caller.telephone, noise=caller.noise)
        sound = np.concatenate([offset, (caller if held_out else other).say(text)])
        line = caller.line((LEAD + TAIL + 1) * FRAME_SAMPLES + len(sound), noise)
        said.append({"intent": index, "text": text, "codes": encoded(sound, mimi, line), "start": len(offset)})
    line = caller.line((LEAD + LINE_FRAMES) * FRAME_SAMPLES, noise)
    return {"line": mimi.encode_call(torch.from_numpy(line))[LEAD:].short(), "said": said, "voice": caller.voice}


def _caller_in_process(codec: Path, held_out: bool, number: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    return caller_part(read_codec(codec), number, held_out=held_out)


def tone_and_silence(mimi: Mimi) -> tuple[list[int], list[int]]:
    """The codes of silence and of a quiet 440 Hz sine, long after their start."""
    time = torch.arange(4 * SAMPLE_RATE) / SAMPLE_RATE
    silence = mimi.encode_call(torch.zeros(4 * SAMPLE_RATE))[-1]
    sine = mimi.encode_call(0.1 * torch.sin(2 * torch.pi * 440 * time))[-1]
    return silence.tolist(), sine.tolist()


def collect(codec: Path, callers: int, held_out: int, workers: int) -> dict[str, Any]:
    """All units of the codec in `codec`."""
    mimi = read_codec(codec)
    silence, sine = tone_and_silence(mimi)
    texts = domain.utterances()
    with get_context("spawn").Pool(workers) as pool:
        known = pool.map_async(partial(_caller_in_process, codec, False), range(callers), 1)
        unknown = pool.map_async(partial(_caller_in_process, codec, True), range(held_out), 1)
        agents = {voice: {text: agent_utterance(text, voice, mimi) for text in texts} for voice in AGENTS}
        prompts = {voice: prompt_codes(voice, mimi) for voice in AGENTS}
        return {
            "silence": silence,
            "sine": sine,
            "agents": agents,
            "voices": prompts,
            "callers": known.get(),
            "held_out": unknown.get(),
        }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codec", type=Path)
    parser.add_argument("units", type=Path)
    parser.add_argument("--callers", type=int, default=CALLERS)
    parser.add_argument("--held-out", type=int, default=HELD_OUT)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.save(collect(options.codec, options.callers, options.held_out, options.workers), options.units)


if __name__ == "__main__":
    main()
