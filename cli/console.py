"""What the user sees: messages and progress on stderr, results on stdout."""

import logging
import os
import sys
from enum import StrEnum

from personaplex.cli.streams import Guarded
from personaplex.core.errors import PersonaplexError


class LogLevel(StrEnum):
    """How much is said on stderr."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


LINE_SECONDS = 30
"""How often progress adds a line to a log."""

log = logging.getLogger("personaplex")


def configure(level: LogLevel, quiet: bool) -> None:
    """Send messages of `level` and above to stderr; `quiet` leaves errors alone."""
    handler = _Handler()
    handler.setFormatter(_Formatter())
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.ERROR if quiet else level.upper())
    if not sys.stderr.isatty():
        for interval in ("TQDM_MININTERVAL", "TQDM_MAXINTERVAL"):
            os.environ.setdefault(interval, str(LINE_SECONDS))  # of the hub's downloads
    if level is not LogLevel.debug:
        os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its retries are told once, when they have failed


class _Handler(logging.Handler):
    """Writes to what stderr is at the time: while progress bars are shown, they let messages through above them."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        return message if record.levelno == logging.INFO else f"{record.levelname.lower()}: {message}"


def notice(text: str) -> None:
    """A message that is shown unless errors alone are wanted."""
    if log.isEnabledFor(logging.WARNING):
        print(text, file=sys.stderr, flush=True)


def is_debug() -> bool:
    """Whether tracebacks are wanted."""
    return log.isEnabledFor(logging.DEBUG)


def show_error(error: PersonaplexError) -> None:
    """What is wrong and its mend, a line each."""
    print(f"error: {error.what}", file=sys.stderr)
    if error.mend:
        print(f"  {error.mend}", file=sys.stderr)
    sys.stderr.flush()


def result(text: str) -> None:
    """A line of what was asked for; that it could not be delivered is an error at the command's end."""
    print(text, flush=True)


def summary(text: str) -> None:
    """A line about files that are written; that it could not be delivered changes nothing."""
    if isinstance(sys.stdout, Guarded):
        sys.stdout.write(f"{text}\n", is_result=False)
        sys.stdout.flush(is_result=False)
    else:
        print(text, flush=True)
