"""Keys that are nearly one of a manifest's: a slip of the pen, which would be passed through as the user's own."""

import re
from collections.abc import Collection

_JOINTS = re.compile(r"[\s_.-]+")
_SHORTEST = 4  # letters of a key that a letter's difference is looked for in


def meant(key: str, known: Collection[str], given: Collection[str]) -> str | None:
    """The known key that `key` differs from by case, blanks, hyphens or one letter, if it does.

    A letter's difference alone says nothing where that key is among the `given` ones as well.
    """
    plain = {_plain(name): name for name in known}
    own = _plain(key)
    if own in plain:
        return plain[own]
    for other, name in plain.items():
        if name not in given and len(other) >= _SHORTEST and _a_letter_apart(own, other):
            return name
    return None


def _plain(key: str) -> str:
    return _JOINTS.sub("", key).casefold()


def _a_letter_apart(one: str, other: str) -> bool:
    """Whether a letter was put in, left out, replaced, or changed places with its neighbour."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    start = next((place for place, char in enumerate(short) if char != long[place]), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    return short[start + 1 :] == long[start + 1 :] or swapped
