"""How many calls an engine takes at a time, by the memory that is there."""

from collections.abc import Sequence

from personaplex.core.engine.batch import Plan, positions
from personaplex.core.engine.job import Job
from personaplex.core.machine.memory import allocatable_slots, cache_bytes, choose_slots, free_bytes
from personaplex.core.weights.model import Model
from personaplex.runs.observer import Observer, Sizing
from personaplex.runs.planning.request import CallOptions


def engine_plan(jobs: Sequence[Job], options: CallOptions, model: Model, observer: Observer) -> Plan:
    """How the engine runs jobs; the observer is told of the slots."""
    return Plan(_slots(jobs, options, model, observer), options.sampling, options.align.value, options.graphs)


def _slots(jobs: Sequence[Job], options: CallOptions, model: Model, observer: Observer) -> int:
    if not jobs:
        return 1
    return slots_for(positions(jobs, options.align.value), len(jobs), options.slots, model, observer)


def slots_for(
    longest: int,
    calls: int,
    asked: int | None,
    model: Model,
    observer: Observer,
    each: int = 1,
    share: float = 1.0,
) -> int:
    """The asked-for number of slots, or as many as fit, for calls of at most `longest` positions; a multiple of `each`.

    `share` is the part of the free memory that they may take. The observer is told of them.
    """
    slot = cache_bytes(model.config, 1, longest, model.lm.dtype.itemsize)
    slots = choose_slots(asked, calls, round(slot / share), model.device)
    if asked is None:
        slots = allocatable_slots(model.lm, max(slots, each), longest)
    slots = max(slots // each, 1) * each
    observer.sized(Sizing(slots, slot, longest, free_bytes(model.device)))
    return slots
