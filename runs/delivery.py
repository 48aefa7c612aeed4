"""Responses on their way from the engine to their files, and those that are written to whoever keeps account."""

from collections import deque
from collections.abc import Iterator, Sequence

from personaplex.core.answers.outputs import Run, write
from personaplex.core.corpus.results import done_row
from personaplex.core.engine.batch import Live
from personaplex.core.engine.job import Response
from personaplex.runs.ledger import Written
from personaplex.runs.observer import Standing
from personaplex.runs.planning.places import Places
from personaplex.runs.planning.planned import PlannedItem


def standings(calls: Sequence[Live]) -> list[Standing]:
    """How far the calls in the slots are."""
    return [Standing(call.job.id, len(call.frames), call.total) for call in calls]


class Delivery:
    """Writes the files of responses to `items`, by their ids, to their places."""

    def __init__(self, run: Run, started: str, places: Places) -> None:
        self.items: dict[str, PlannedItem] = {}
        self._run = run
        self._started = started
        self._places = places
        self._written: deque[Written] = deque()

    def deliver(self, response: Response) -> None:
        """Write a response's files, on whatever thread; raises InputError, and StorageError for an outlet."""
        item = self.items[response.job.id]
        source, seconds = item.item.source, sum(response.seconds.values())
        document = self._places.written(
            item, lambda: write(response, self._run, item.paths, source, self._started, seconds, clears=True)
        )
        self._written.append(Written(done_row(item.item, document), response.info.duration, response.seconds["live"]))

    def written(self) -> Iterator[Written]:
        """What was written since it was asked last."""
        while self._written:
            yield self._written.popleft()
