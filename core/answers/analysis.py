"""What is said and heard in a response: the agent's words, when each side speaks, and what is odd about it."""

from dataclasses import dataclass

from personaplex.core.answers.flags import Flag, find_flags
from personaplex.core.answers.transcript import Word, words
from personaplex.core.audio.activity import stretches
from personaplex.core.audio.levels import quiet_frames
from personaplex.core.engine.job import Response
from personaplex.core.lm.tokenizer import Tokenizer


@dataclass(frozen=True)
class Analysis:
    """The agent's words, the stretches of the caller's and the agent's speech in seconds, and the flags."""

    spoken: list[Word]
    activity: dict[str, list[tuple[float, float]]]
    flags: list[Flag]


def analyse(response: Response, tokenizer: Tokenizer) -> Analysis:
    """Look a response over; raises ModelError for a text token that the tokenizer lacks."""
    text_tokens, quiet = response.tokens[:, 0], quiet_frames(response.samples)
    spoken = words(text_tokens, tokenizer, quiet)
    activity = {"caller": stretches(response.caller), "agent": stretches(~quiet)}
    return Analysis(spoken, activity, find_flags(text_tokens, spoken, quiet))
