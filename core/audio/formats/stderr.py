"""Keeping what mpg123 says, which names no file, off the standard error."""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_LOCK = threading.Lock()
_MPG123 = re.compile(
    rb"^(?:\[src/libmpg123/|Note: (?:Illegal Audio-MPEG|Trying to resync|Skipped \d+ bytes|Hit end)"
    rb"|Warning: (?:Xing|Cannot read next header|Encountered more|Real sample count)).*\n",
    re.MULTILINE,
)


@contextmanager
def without_mpg123() -> Iterator[list[bytes]]:
    """Keep what mpg123 writes to the standard error meanwhile; what others write comes through afterwards.

    Its lines are in the list that this gives, once it is over.
    """
    lines: list[bytes] = []
    with _LOCK, ExitStack() as stack:
        try:
            caught, kept = stack.enter_context(tempfile.TemporaryFile()), os.dup(2)
        except OSError:  # there is no standard error, or nowhere to keep what it is told
            yield lines
            return
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            text = caught.read()
            lines += _MPG123.findall(text)
            _pass_on(_MPG123.sub(b"", text))


def _pass_on(text: bytes) -> None:
    try:
        while text:
            text = text[os.write(2, text) :]
    except OSError:
        return
