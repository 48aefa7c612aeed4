"""What the user sees: messages and progress on stderr, results on stdout."""

import logging
import os
import sys
from enum import StrEnum

import typer

from personaplex.core.errors import PersonaplexError


class LogLevel(StrEnum):
    """How much is said on stderr."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


log = logging.getLogger("personaplex")


def configure(level: LogLevel, quiet: bool) -> None:
    """Send messages of `level` and above to stderr; `quiet` leaves errors alone."""
    handler = _Handler()
    handler.setFormatter(_Formatter())
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.ERROR if quiet else level.upper())
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
        typer.echo(text, err=True)


def is_debug() -> bool:
    """Whether tracebacks are wanted."""
    return log.isEnabledFor(logging.DEBUG)


def show_error(error: PersonaplexError) -> None:
    """What is wrong and its mend, a line each."""
    typer.echo(f"error: {error.what}", err=True)
    if error.mend:
        typer.echo(f"  {error.mend}", err=True)


def result(text: str) -> None:
    """A line of results."""
    typer.echo(text)
