"""What conversations between two personas are known to go wrong by: greetings without end, and both sides waiting."""

import re
from collections.abc import Sequence

from personaplex.core.answers.flags import Flag
from personaplex.core.answers.transcript import Segment

WAIT = 5.0
"""Seconds in which neither side says a word."""
GREETINGS = 3
"""Turns with a greeting of one side that are too many: a call has one, and one more where it is handed over."""
GREETING = re.compile(
    r"\b(hello|hi|hey|welcome|good (morning|afternoon|evening)|thank(s| you) for calling|how (can|may) i help)\b",
    re.IGNORECASE,
)


def conversation_flags(turns: Sequence[Segment], duration: float) -> list[Flag]:
    """The flags of both sides' `turns`, in order of their start, in a conversation of `duration` seconds.

    - `both_waiting`: no word of either side for `WAIT` seconds or more;
    - `greeting_loop`: a side greets in `GREETINGS` turns or more.
    """
    return sorted([*_waiting(turns, duration), *_greetings(turns)], key=lambda flag: flag.start)


def _waiting(turns: Sequence[Segment], duration: float) -> list[Flag]:
    found, reached = [], 0.0
    for start, end in [*((turn.start, turn.end) for turn in turns), (duration, duration)]:
        if start - reached >= WAIT:
            found.append(Flag("both_waiting", reached, start, f"no word for {start - reached:.2f} s"))
        reached = max(reached, end)
    return found


def _greetings(turns: Sequence[Segment]) -> list[Flag]:
    found = []
    for speaker in sorted({turn.speaker for turn in turns}):
        greeting = [turn for turn in turns if turn.speaker == speaker and GREETING.search(turn.text)]
        if len(greeting) >= GREETINGS:
            detail = f"{speaker} greets in {len(greeting)} turns"
            found.append(Flag("greeting_loop", greeting[0].start, greeting[-1].end, detail))
    return found
