"""A batch's items on several devices of this machine."""

import logging
from collections.abc import Callable, Sequence

from personaplex.core.engine.call import live_calls
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.runs.devices.account import Books
from personaplex.runs.devices.calls import CallWork, personas_of
from personaplex.runs.devices.chosen import Device
from personaplex.runs.devices.dispatch import Dispatcher
from personaplex.runs.devices.processes import Processes
from personaplex.runs.devices.queue import Call
from personaplex.runs.jobs import planned_frames
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import BatchRequest

log = logging.getLogger(__name__)


def run_on_devices(
    items: Sequence[PlannedItem],
    request: BatchRequest,
    devices: Sequence[Device],
    books: Books,
    refuse: Callable[[PlannedItem], None],
    started: str,
) -> None:
    """Run items on devices; raises PersonaplexError where none can go on. The ledger is not yet written at the end."""
    if any(item.item.stored is not None for item in items):
        raise UsageError("--devices reads files, and some calls are in a store", "copy them here, or use --shard")
    calls = []
    for item in items:
        try:
            refuse(item)
            calls.append(Call(item.item.id, planned_frames(item), item))
        except PersonaplexError as error:
            books.failed(item, error)
            if books.is_over:
                return
    if not calls:
        return
    devices = devices[: len(calls)]
    personas = personas_of([call.load for call in calls], {call.id: call.frames for call in calls})
    work = CallWork(request, personas, len(calls), len(devices), started)
    with books.observer.running(sum(live_calls(call.frames, request.align.value) for call in calls)):
        books.observer.failed(books.ledger.counts.failed)
        Dispatcher(calls, Processes(devices, work), books).run()
