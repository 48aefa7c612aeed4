"""What a batch would do, told without a model and without running anything."""

from dataclasses import dataclass

from personaplex.core.answers.leftovers import left_behind
from personaplex.core.config import FRAME_RATE
from personaplex.core.corpus.items import PassedOver
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.machine.memory import cache_bytes, choose_slots
from personaplex.core.storage.spool import ahead_of
from personaplex.runs.jobs import is_of_options, planned_frames
from personaplex.runs.models.known import known_model
from personaplex.runs.models.located import pick_device
from personaplex.runs.planning.places import Places
from personaplex.runs.planning.plan import plan_items
from personaplex.runs.planning.prompts import prompt_lengths
from personaplex.runs.planning.request import BatchRequest
from personaplex.runs.planning.todo import choose_items

PROMPT_ALLOWANCE = 256  # positions that are counted for a prompt whose length isn't known


@dataclass(frozen=True)
class Forecast:
    """What a batch would do; `refused_rows` and `unreadable_files` tell why each of these would fail."""

    items: int
    skipped: int
    refused: int
    unreadable: int
    to_run: int
    frames: int
    longest_frames: int
    slots: int
    cache_bytes: int
    weights_bytes: int
    refused_rows: tuple[str, ...]
    unreadable_files: tuple[str, ...]
    passed_over: PassedOver
    warnings: tuple[str, ...]

    @property
    def audio_hours(self) -> float:
        """Hours of callers' audio to run."""
        return self.frames / FRAME_RATE / 3600


def forecast(request: BatchRequest) -> Forecast:
    """Plan a batch and size it up; raises PersonaplexError where nothing could be run."""
    with request.source.told():
        return _forecast(request)


def _forecast(request: BatchRequest) -> Forecast:
    planned = plan_items(request.source, request.outputs)
    places = Places(planned.items, request)
    todo = choose_items(planned, request, None)
    gone = set(left_behind(item.paths for item in todo.all))
    known, length = known_model(request.model.name), prompt_lengths(request.model)
    config, width = known.config, known.width(request.model.dtype)
    frames, prompts, unreadable = [], [], []
    for item in ahead_of(todo.run, lambda item: item.item.stored):
        prompt = length(item)
        if prompt is not None and is_of_options(item):
            prompt.check(config.lm.context)
        try:
            places.refuse_foreign(item, gone)
            if prompt is not None:
                prompt.check(config.lm.context)
            frames.append(planned_frames(item))
            prompts.append(PROMPT_ALLOWANCE if prompt is None else prompt.frames)
        except UsageError as error:
            unreadable.append(f"{item.item.id}: {error.what}")
        except PersonaplexError as error:
            unreadable.append(error.what)
    longest = max(frames, default=0)
    slot = cache_bytes(config, 1, longest + max(prompts, default=PROMPT_ALLOWANCE), width)
    weights = known.size(1, longest, request.model.dtype, request.model.quantize).weights_bytes
    slots = choose_slots(request.slots, len(frames), slot, pick_device(request.model.device), to_load=weights)
    return Forecast(
        items=len(todo.all) + len(todo.refused),
        skipped=len(todo.done),
        refused=len(todo.refused),
        unreadable=len(unreadable),
        to_run=len(frames),
        frames=sum(frames),
        longest_frames=longest,
        slots=slots,
        cache_bytes=slots * slot,
        weights_bytes=weights,
        refused_rows=tuple(refused.error.what for refused in todo.refused),
        unreadable_files=tuple(unreadable),
        passed_over=planned.passed_over,
        warnings=(*planned.warnings, *planned.passed_over.surprising()),
    )
