"""What can go wrong: one base class, a subclass for each exit code.

A message says what is wrong and where (file, row or option); `mend` says what to do about it. The command line
prints both and exits with `exit_code`; in a batch an `InputError` fails its item alone.
"""


class PersonaplexError(Exception):
    """Base of every error that is told to the user without a traceback."""

    exit_code = 3

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.what}\n{self.mend}" if self.mend else self.what


class InputError(PersonaplexError):
    """One item can't be run: its audio is missing, broken or unusable. Exit 1."""

    exit_code = 1


class UsageError(PersonaplexError):
    """An option, a manifest row or a prompt makes no sense. Exit 2."""

    exit_code = 2


class ModelError(PersonaplexError):
    """A checkpoint, config, tokenizer or download is missing or doesn't fit. Exit 3."""


class VoiceError(PersonaplexError):
    """A voice is unknown, unreadable or made for another model. Exit 3."""


class StorageError(PersonaplexError):
    """A store of objects can't be reached, read or written. Exit 3."""
