"""The kinds of device that a run's calls were made on: where they differ, so may bits."""

import logging
from collections.abc import Iterable

from personaplex.core.errors import ModelError

log = logging.getLogger(__name__)


class Kinds:
    """Tells of unlike devices once, or if the run `must_agree`, raises for them."""

    def __init__(self, must_agree: bool, before: Iterable[str] = ()) -> None:
        self._must_agree = must_agree
        self._seen: dict[str, str] = {}
        for kind in before:
            self.add("earlier calls", kind)

    def add(self, name: str, kind: str) -> None:
        """A device, or calls, of this kind; raises ModelError."""
        if kind in self._seen:
            return
        for other, first in self._seen.items():
            what = (
                f"unlike devices: {first} ran on {other}, {name} on {kind}"
                if first == "earlier calls"
                else (f"unlike devices: {first} is {other}, {name} is {kind}")
            )
            if self._must_agree:
                raise ModelError(what, "choose devices of one kind, or leave out --same-device-kind")
            log.warning("%s; bits may depend on them, and each row says on which it was made", what)
            break
        self._seen[kind] = name
