"""The calls that are left for workers: the longest first, those of lost workers again, but not for ever."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MOST_LOST = 2
"""A call that has brought down so many workers fails."""


@dataclass(eq=False)
class Call:
    """A call of `frames` frames at most; `load` is what a worker is sent.

    lost: workers that went down while they held it.
    shunned: workers in whose place it can't be written.
    """

    id: str
    frames: int
    load: Any
    lost: int = 0
    shunned: set[str] = field(default_factory=set)

    @property
    def is_suspect(self) -> bool:
        """Whether a worker takes no other such call beside it, so that the next one to go down tells which it was."""
        return self.lost >= MOST_LOST


class Queue:
    """Calls that wait."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._waiting = deque(sorted(calls, key=lambda call: -call.frames))

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, worker: str, held: Iterable[Call]) -> Call | None:
        """The first call that a worker may take, beside those that it holds."""
        has_suspect = any(call.is_suspect for call in held)
        for place, call in enumerate(self._waiting):
            if worker not in call.shunned and not (call.is_suspect and has_suspect):
                del self._waiting[place]
                return call
        return None

    def put_back(self, call: Call) -> None:
        """A call that was taken is to be taken again, and soon."""
        self._waiting.appendleft(call)

    def lost(self, held: Iterable[Call]) -> list[Call]:
        """Put back the calls of a worker that went down; returns those that are to blame, which are not.

        A worker that is preempted takes many innocent calls with it. So the blame is on a call that was held by two
        lost workers, and in the second by no other such call beside it; else these are kept apart until it is clear.
        """
        calls = list(held)
        before = [call for call in calls if call.lost >= MOST_LOST - 1]
        most = max((call.lost for call in before), default=0)
        worst = [call for call in before if call.lost == most]
        blamed = worst if len(worst) == 1 else []
        for call in sorted(calls, key=lambda call: call.frames):
            call.lost += 1
            if call not in blamed:
                self.put_back(call)
        return blamed
