"""One call measured: its transcript and its sound made into two tracks. A conversation of two personas is one too."""

from pathlib import Path

import numpy as np

from personaplex.core.audio.power import WINDOWS
from personaplex.core.errors import InputError
from personaplex.core.measures.figures import measure
from personaplex.core.measures.rows import Call, Made
from personaplex.core.measures.tracks import Mask, Track, window
from personaplex.prompts.library import named
from personaplex.runs.measures.answers import Answer, read_answer
from personaplex.runs.measures.conversations import Conversation, read_conversation
from personaplex.runs.measures.ears import Ear
from personaplex.runs.measures.recordings import Recording, Recordings

_MOST_LETTERS = 60
_LATE = 0.1  # seconds by which a WAV's length may differ from what its transcript says


def read_call(transcript: Path) -> Answer | Conversation:
    """The answer or the conversation in a transcript's file; raises InputError."""
    found = read_answer(transcript) or read_conversation(transcript)
    if found is None:
        raise InputError(f"{transcript}: not a transcript of personaplex", "run the item again, or remove the file")
    return found


def measure_call(call: Answer | Conversation, name: str, recordings: Recordings, ear: Ear) -> Call:
    """Measure the call `name`; raises InputError."""
    return _answered(call, name, recordings, ear) if isinstance(call, Answer) else _talked(call, name, ear)


def _answered(answer: Answer, name: str, recordings: Recordings, ear: Ear) -> Call:
    """The agent's track is taken in the model's own time."""
    caller = Track("caller", ear.caller(recordings.caller(answer)), listens=False)
    heard, shift = _heard(answer.wav, answer.input.duration, ear), window(answer.shift)
    words = [(start - answer.shift, end - answer.shift) for start, end in answer.words]
    agent = Track("agent", np.concatenate([heard[shift:], np.zeros(shift, bool)]), words)
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
    return Call(made, measure(caller, agent, answer.input.duration))


def _talked(talk: Conversation, name: str, ear: Ear) -> Call:
    one, other = (Track(side.name, _heard(side.wav, talk.duration, ear), side.words) for side in talk.speakers)
    made = Made(
        id=name,
        **persona(talk),
        vad=ear.name,
        shift=0.0,
        pcm_sha256=talk.pcm_sha256,
        input_sha256=None,
    )
    return Call(made, measure(one, other, talk.duration))


def persona(talk: Conversation) -> dict[str, str]:
    """The voice, role and seed of a conversation: those of both sides, in one text each."""
    return {
        "voice": " and ".join(side.voice for side in talk.speakers),
        "role": " and ".join(role_name(side.role) for side in talk.speakers),
        "seed": " and ".join(str(side.seed) for side in talk.speakers),
    }


def _heard(wav: Path, seconds: float, ear: Ear) -> Mask:
    """Where a WAV that the model made, of so many seconds, holds speech; raises InputError for another length."""
    heard = ear.agent(Recording(wav, "mix"))
    length = len(heard) / WINDOWS
    if abs(length - seconds) > _LATE:
        what = f"{wav}: lasts {length:.2f} s, where its transcript has {seconds:.2f} s"
        raise InputError(what, "run the item again, or bring its WAV back")
    return heard


def role_name(text: str) -> str:
    """A role of the library that a prompt's text is of, whatever its fields; else how the text begins."""
    known = named(text)
    if known is not None:
        return known
    line = " ".join(text.split()) or "(no text)"
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
