"""Which ids can name an item's outputs."""

import os
from collections.abc import Iterable
from typing import Protocol

from personaplex.core.errors import UsageError
from personaplex.core.faults import shown

_MOST_BYTES = 255  # of a name, in the file systems that matter
_MOST_LAST_BYTES = 200  # leaves room for suffixes, and for what a name has while its file is written


def id_fault(name: str) -> tuple[str, str] | None:
    """Why no outputs can be called `name`, and the mend; None for an id that is as it should be."""
    *folders, last = name.split("/")
    size = len(os.fsencode(last))
    cannot = f'the id "{shown(name)}" can\'t name output files'
    if any(part in {"", ".", ".."} for part in (*folders, last)):
        return f"{cannot}: a part of it is empty, . or ..", "use a relative path, such as monday/17"
    if any(part.startswith(".") for part in (*folders, last)):
        return f"{cannot}: a part of it starts with a dot, so that they would be hidden", "leave the dot out"
    if "\0" in name:
        return f"{cannot}: it holds a NUL", "leave it out"
    if os.sep != "/" and os.sep in name:
        return f"{cannot}: it holds a {os.sep}", "separate folders by /"
    if size > _MOST_LAST_BYTES:
        return f"{cannot}: its name is {size} bytes long, of {_MOST_LAST_BYTES} at most", "give it a shorter one"
    if any(len(os.fsencode(part)) > _MOST_BYTES for part in folders):
        return f"{cannot}: a folder's name is over {_MOST_BYTES} bytes long", "give it a shorter one"
    return None


class Placed(Protocol):
    """What stands somewhere in a source under an id."""

    @property
    def id(self) -> str:
        """Names its outputs."""

    @property
    def where(self) -> str:
        """The row or file that it came from."""


def check_unique(found: Iterable[Placed], kind: str) -> None:
    """Raise UsageError for two things of a `kind` (in the plural) with one id."""
    seen: dict[str, Placed] = {}
    for one in found:
        other = seen.setdefault(one.id, one)
        if other is not one:
            what = f'the id "{one.id}" stands for two {kind}: {other.where} and {one.where}'
            raise UsageError(what, "give each an id of its own")


def unhidden(name: str) -> str:
    """A path without the dots that hide parts of it."""
    return "/".join(part.lstrip(".") for part in name.split("/"))
