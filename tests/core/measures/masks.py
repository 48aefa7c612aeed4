"""Masks made by hand, from the seconds in which somebody speaks."""

import numpy as np

from personaplex.core.measures.tracks import Mask, Track, window


def mask(*spoken: tuple[float, float], length: float) -> Mask:
    """A mask of `length` seconds that is true within the stretches `spoken`."""
    made = np.zeros(window(length), bool)
    for start, end in spoken:
        made[window(start) : window(end)] = True
    return made


def agent(*spoken: tuple[float, float], length: float, words: list[tuple[float, float]] | None = None) -> Track:
    """The agent, who listens."""
    return Track("agent", mask(*spoken, length=length), words)


def caller(*spoken: tuple[float, float], length: float) -> Track:
    """A caller who is a recording."""
    return Track("caller", mask(*spoken, length=length), listens=False)
