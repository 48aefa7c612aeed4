"""One call measured: its transcript, the agent's WAV and the caller's recording made into two tracks."""

from pathlib import Path

import numpy as np

from personaplex.core.audio.power import WINDOWS
from personaplex.core.errors import InputError
from personaplex.core.measures.figures import measure
from personaplex.core.measures.rows import Call, Made
from personaplex.core.measures.tracks import Track, window
from personaplex.prompts.library import named
from personaplex.runs.measures.answers import Answer, read_answer
from personaplex.runs.measures.ears import Ear
from personaplex.runs.measures.recordings import Recording, Recordings

_MOST_LETTERS = 60
_LATE = 0.1  # seconds by which a WAV's length may differ from what its transcript says


def measure_call(transcript: Path, name: str, recordings: Recordings, ear: Ear) -> Call:
    """Measure the call `name` of a transcript's file; raises UsageError and InputError."""
    answer = read_answer(transcript)
    caller = Track("caller", ear.caller(recordings.caller(answer)), listens=False)
    made = Made(
        id=name,
        voice=answer.voice,
        role=role_name(answer.role),
        seed=answer.seed,
        vad=ear.name,
        shift=answer.shift,
        pcm_sha256=answer.pcm_sha256,
        input_sha256=answer.input.sha256,
    )
    return Call(made, measure(caller, _agent(answer, ear), answer.input.duration))


def _agent(answer: Answer, ear: Ear) -> Track:
    """The agent's track in the model's own time."""
    heard, shift = ear.agent(Recording(answer.wav, "mix")), window(answer.shift)
    length, said = len(heard) / WINDOWS, answer.input.duration
    if abs(length - said) > _LATE:
        what = f"{answer.wav}: lasts {length:.2f} s, where its transcript has {said:.2f} s"
        raise InputError(what, "run the item again, or bring its WAV back")
    words = [(start - answer.shift, end - answer.shift) for start, end in answer.words]
    return Track("agent", np.concatenate([heard[shift:], np.zeros(shift, bool)]), words)


def role_name(text: str) -> str:
    """A role of the library that a prompt's text is of, whatever its fields; else how the text begins."""
    known = named(text)
    if known is not None:
        return known
    line = " ".join(text.split()) or "(no text)"
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
