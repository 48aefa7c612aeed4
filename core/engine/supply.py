"""Where an engine's slots get their work from: a list, or somebody who hands it out piece by piece."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol, TypeVar

Work = TypeVar("Work", bound="Sized")
Supplied = TypeVar("Supplied", covariant=True)


class Sized(Protocol):
    """Work of so many frames at most."""

    @property
    def frames(self) -> int:
        """How long it may take."""


class Supply(Protocol[Supplied]):
    """Gives work, one piece at a time."""

    def take(self, *, waits: bool) -> Supplied | None:
        """The next piece; None where there is none now, and if it `waits`, where there will be none any more."""


class Longest(Supply[Work]):
    """Work that is known from the start, the longest first."""

    def __init__(self, work: Iterable[Work]) -> None:
        self._waiting = deque(sorted(work, key=lambda one: -one.frames))

    def take(self, *, waits: bool) -> Work | None:
        """The longest piece that is left."""
        return self._waiting.popleft() if self._waiting else None
