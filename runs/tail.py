"""The end of a run, when slots are empty because no call is left for them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from personaplex.runs.observer import Standing


@dataclass(frozen=True)
class TailFigures:
    """How a run ended.

    running_seconds: from the first model that was loaded to the last call.
    empty_seconds: how long a slot stood empty at the end, in the mean of all slots.
    least_seconds: what no order of these calls could have gone below: the work over all slots, or the longest call.
    """

    running_seconds: float
    empty_seconds: float
    least_seconds: float


class Tail:
    """Follows a run by what leaves its slots."""

    def __init__(self) -> None:
        self._slots = 0
        self._begun: float | None = None
        self._left: list[float] = []
        self._work = 0.0
        self._longest = 0.0

    def opened(self, slots: int) -> None:
        """So many more slots are there."""
        self._slots += slots
        self._begun = time.monotonic() if self._begun is None else self._begun

    def ticked(self, calls: Sequence[Standing]) -> None:
        """These are one frame further, and leave when they are through."""
        now = time.monotonic()
        self._left += [now for call in calls if call.done == call.total]
        self._left = self._left[-self._slots :]

    def lived(self, seconds: float) -> None:
        """A call was so long in its slot."""
        self._work += seconds
        self._longest = max(self._longest, seconds)

    def figures(self) -> TailFigures | None:
        """All of it; None where nothing left a slot. Each slot counts from the last call that left it.

        Where there were fewer calls than slots, the others stood empty all the time.
        """
        if self._begun is None or not self._left or not self._slots:
            return None
        end = max(self._left)
        running = end - self._begun
        empty = sum(end - left for left in self._left) + running * (self._slots - len(self._left))
        least = max(self._work / self._slots, self._longest)
        return TailFigures(round(running, 3), round(empty / self._slots, 3), round(least, 3))
