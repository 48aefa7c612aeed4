"""What a run and its workers tell each other. Paths, settings and rows travel, never sound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from personaplex.core.answers.transcript import EngineInfo, ModelInfo
from personaplex.core.errors import PersonaplexError
from personaplex.runs.ledger import Written
from personaplex.runs.observer import Sizing, Standing


@dataclass(frozen=True)
class Take:
    """To a worker: run this call; `load` is what its work makes of it."""

    id: str
    load: Any


@dataclass(frozen=True)
class Close:
    """To a worker: there are no more calls. If it `drops` them, those in the slots are not run to their end."""

    drops: bool


@dataclass(frozen=True)
class Ready:
    """The model is loaded, for `slots` calls at a time; `ahead` more are worth having while those run."""

    node: str
    model: ModelInfo
    engine: EngineInfo
    sizing: Sizing
    slots: int
    ahead: int


@dataclass(frozen=True)
class Ticked:
    """How far the calls in the slots are."""

    calls: Sequence[Standing]


@dataclass(frozen=True)
class Failed:
    """A call can't be run; if `is_place`, for a reason that lies in the place, such as a full disk."""

    id: str
    error: PersonaplexError
    is_place: bool = False


@dataclass(frozen=True)
class Said:
    """A message for the log."""

    level: int
    text: str


@dataclass(frozen=True)
class Broken:
    """This worker can't run anything."""

    error: PersonaplexError


@dataclass(frozen=True)
class Gone:
    """From whoever holds the line: the worker is no more."""

    why: str


ToWorker = Take | Close
FromWorker = Ready | Ticked | Written | Failed | Said | Broken | Gone
