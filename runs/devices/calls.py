"""A batch's calls as work for a worker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from personaplex.core.answers.outputs import Run
from personaplex.core.engine.batch import Batch, Live, Plan, queue_length
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Failure, Job, NamedVoice
from personaplex.core.errors import PersonaplexError
from personaplex.core.weights.model import Model
from personaplex.runs.delivery import Delivery, standings
from personaplex.runs.devices.chosen import Device
from personaplex.runs.devices.messages import Ready
from personaplex.runs.devices.worker import Opened, Port
from personaplex.runs.jobs import check_prompts, is_of_options, make_job, make_prompt, voices_of
from personaplex.runs.models.located import locate_model
from personaplex.runs.observer import Observer, Sizing
from personaplex.runs.planning.places import Places
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import BatchRequest
from personaplex.runs.sizing import slots_for


@dataclass(frozen=True)
class Persona:
    """A text and a voice that calls of the run have; `is_of_options` where the command alone asked for it."""

    text: str
    voice: str
    is_of_options: bool


def personas_of(items: Sequence[PlannedItem], frames: Mapping[str, int]) -> dict[Persona, int]:
    """The personas of items, each with the frames of its longest call."""
    longest: dict[Persona, int] = {}
    for item in items:
        persona = Persona(item.text, item.voice, is_of_options(item))
        longest[persona] = max(longest.get(persona, 0), frames[item.item.id])
    return longest


@dataclass(frozen=True)
class CallWork:
    """Calls of `request`, with the `longest` call of each persona in frames, for so many workers; see `Work`."""

    request: BatchRequest
    longest: Mapping[Persona, int]
    calls: int
    workers: int
    started: str

    def open(self, device: Device) -> Opened:
        """Load the model on the device."""
        return _Calls(self, device)


class _Sized(Observer):
    """Keeps what it is told of the slots."""

    sizing: Sizing

    def sized(self, sizing: Sizing) -> None:
        """Keep it."""
        self.sizing = sizing


class _Calls:
    """A loaded model between a port and the files."""

    def __init__(self, work: CallWork, device: Device) -> None:
        request = replace(work.request, model=replace(work.request.model, device=device.device))
        self._request = request
        located = locate_model(request.model)
        self._model = located.load()
        names = {persona.voice for persona in work.longest}
        self._voices = voices_of(names, request.source.voice_folder, located, self._model)
        of_options = ((persona.text, persona.voice) for persona in work.longest if persona.is_of_options)
        check_prompts(of_options, self._voices, self._model)
        self._positions = _positions(work.longest, self._voices, request, self._model)
        calls, observer = -(-work.calls // work.workers), _Sized()
        self._slots = slots_for(self._positions, calls, request.slots, self._model, observer, share=device.share)
        self._sizing = observer.sizing
        self._run = Run.of(self._model, self._slots, request.sampling, request.align.value, request.outputs)
        self._places = Places([], request)
        self._delivery = Delivery(self._run, work.started, self._places)

    def ready(self, node: str) -> Ready:
        """What the run is told of it."""
        ahead = queue_length(self._model.device, self._slots)
        return Ready(node, self._run.model, self._run.engine, self._sizing, self._slots, ahead)

    def run(self, port: Port) -> None:
        """Run calls until there are no more."""

        def watch(calls: Sequence[Live]) -> None:
            port.ticked(standings(calls))
            if port.drops.is_set():
                batch.stop()

        def record() -> None:
            for written in self._delivery.written():
                del self._delivery.items[written.row["id"]]
                port.send(written)

        request = self._request
        plan = Plan(self._slots, request.sampling, request.align.value, request.graphs)
        batch = Batch(self._model, plan, self._delivery.deliver, watch)
        try:
            for outcome in batch.follow(_Jobs(port, self._job), self._positions):
                if isinstance(outcome, Failure):
                    del self._delivery.items[outcome.job.id]
                    port.failed(outcome.job.id, outcome.error)
                record()
        finally:
            record()  # those too that were on their way when the batch broke off

    def _job(self, item: PlannedItem) -> Job:
        self._places.refuse_foreign(item)
        job = make_job(item, self._voices[item.voice], self._request, self._model)
        self._delivery.items[job.id] = item
        return job


class _Jobs:
    """The calls that a port brings, made into jobs; one that can't be is told, and passed over."""

    def __init__(self, port: Port, make: Callable[[PlannedItem], Job]) -> None:
        self._port = port
        self._make = make

    def take(self, *, waits: bool) -> Job | None:
        """See `Supply`."""
        while (taken := self._port.take(waits=waits)) is not None:
            try:
                return self._make(taken.load)
            except PersonaplexError as error:
                self._port.failed(taken.id, error)
        return None


def _positions(
    longest: Mapping[Persona, int],
    voices: Mapping[str, NamedVoice | PersonaplexError],
    request: BatchRequest,
    model: Model,
) -> int:
    """How long a cache must be for every call of these personas."""
    found = 1
    for persona, frames in longest.items():
        voice = voices[persona.voice]
        if isinstance(voice, NamedVoice):
            try:
                steps = make_prompt(voice, persona.text, model).steps
            except PersonaplexError:
                continue  # told of each of its calls
            found = max(found, steps + live_calls(frames, request.align.value))
    return found
