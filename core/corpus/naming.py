"""Which ids can name an item's outputs."""

import os

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


def unhidden(name: str) -> str:
    """A path without the dots that hide parts of it."""
    return "/".join(part.lstrip(".") for part in name.split("/"))
