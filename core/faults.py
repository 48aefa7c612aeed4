"""What pydantic found wrong, in a phrase for an error's text."""

from collections.abc import Sequence

from pydantic import ValidationError

MOST_FAULTS = 5


def field_faults(error: ValidationError, whole: str = "it") -> list[str]:
    """Each fault by its field, such as `fields.name: Input should be a valid string`; `whole` names the whole value."""
    return [f"{'.'.join(map(str, fault['loc'])) or whole}: {fault['msg']}" for fault in error.errors()]


def first_faults(faults: Sequence[str]) -> str:
    """The first of several faults, and how many more there are."""
    more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    return "; ".join(faults[:MOST_FAULTS]) + more


def shown(name: str) -> str:
    """A name for a message: what can't be seen in it, or would steer a terminal, as Python writes it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
