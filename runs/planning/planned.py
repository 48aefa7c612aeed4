"""What the source of a batch comes to."""

from dataclasses import dataclass

from personaplex.core.answers.outputs import OutputPaths
from personaplex.core.corpus.items import Item, PassedOver, Refused


@dataclass(frozen=True)
class PlannedItem:
    """An item that can be run. `voice` is a path, or a name of the catalogue for `find`."""

    item: Item
    voice: str
    text: str
    seed: int
    channel: str
    paths: OutputPaths


@dataclass(frozen=True)
class Planned:
    """What a source comes to: the items to run and what can't be run, told before a model is loaded."""

    items: list[PlannedItem]
    refused: list[Refused]
    passed_over: PassedOver
    warnings: list[str]

    @property
    def order(self) -> list[str]:
        """The ids of all of them, in the source's order."""
        places = [(one.item.place, one.item.id) for one in self.items] + [(one.place, one.id) for one in self.refused]
        return [name for _, name in sorted(places, key=lambda one: one[0])]
