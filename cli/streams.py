"""Standard output and error that never stop a run: what can't be delivered is kept in mind for its end.

A reader that goes away, a full disk, a terminal that hangs up: none of them may decide what is computed and written.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

CLOSED = OSError(errno.EBADF, "it is closed")


class Guarded:
    """A text stream, or None where there is none, to which writing never fails.

    `fault` is why something could not be delivered; from then on the stream takes everything and delivers nothing.
    `has_lost_results` tells whether there was more in it than a summary. What its encoding lacks is written with
    backslashes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.fault: OSError | None = None
        self.has_lost_results = False

    def write(self, text: str, is_result: bool = True) -> int:
        """Write `text`, or forget it; that of a result is remembered."""
        if self._stream is None:
            self.fault = CLOSED
        if self.fault is None:
            try:
                self._write(text)
            except (OSError, ValueError) as error:
                self._lose(error)
        self.has_lost_results |= self.fault is not None and is_result
        return len(text)

    def flush(self, is_result: bool = True) -> None:
        """Deliver what has been written so far, or forget it."""
        if self._stream is not None and self.fault is None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._lose(error)
                self.has_lost_results |= is_result

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: OSError | ValueError) -> None:
        self.fault = error if isinstance(error, OSError) else CLOSED
        # What the stream still holds would fail again when Python ends, and change the exit code.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def guarded() -> Iterator[Guarded]:
    """Put `Guarded` streams in the places of stdout, which is returned, and stderr."""
    out, err = sys.stdout, sys.stderr
    guard = Guarded(out)
    sys.stdout, sys.stderr = guard, Guarded(err)
    try:
        yield guard
    finally:
        guard.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = out, err


def fill_closed() -> None:
    """Open what a caller has closed of the descriptors 0 to 2, so that no output takes the place of a standard one."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
