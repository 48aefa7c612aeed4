"""The workers of a run, wherever they are: what is said to them and heard from them."""

from collections.abc import Sequence
from typing import Protocol

from personaplex.runs.devices.messages import FromWorker, ToWorker


class Crew(Protocol):
    """Workers by name. Each loads its model by itself and then says that it is `Ready`; the last of it is `Gone`."""

    @property
    def names(self) -> Sequence[str]:
        """Those that are there or on their way."""

    def hear(self, seconds: float) -> Sequence[tuple[str, FromWorker]]:
        """What workers have to say, waiting for some seconds at most."""

    def tell(self, name: str, message: ToWorker) -> None:
        """Tell a worker something; what is told to one that is gone is lost."""

    def again(self, name: str) -> None:
        """Put a new worker in the place of one that is gone."""

    def end(self) -> None:
        """End those that are still there, at once."""
