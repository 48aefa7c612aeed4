"""What a run tells while it goes, besides the messages that it logs under `personaplex.runs`."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Sizing:
    """How many slots a run takes, the cache of each for the longest call, and the memory that is free, in bytes."""

    slots: int
    slot_bytes: int
    positions: int
    free_bytes: int


class Standing(NamedTuple):
    """How far a call is: it has `done` of `total` frames."""

    id: str
    done: int
    total: int


class Observer:
    """Told how a run goes; every method does nothing, for a subclass to show what it wants to.

    Set `stop`, from any thread or signal handler, and a batch ends early: calls in the slots are dropped, those that
    are done already are written.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()

    def sized(self, sizing: Sizing) -> None:
        """The model is loaded, the memory shared out."""

    @contextmanager
    def running(self, frames: int) -> Iterator[None]:
        """Held while calls of `frames` frames in all are run."""
        yield

    def ticked(self, calls: Sequence[Standing]) -> None:
        """So far are calls in the slots: of one engine all of them after each frame, of several now and then."""

    def failed(self, count: int) -> None:
        """So many items have failed so far."""
