"""Running conversations: plan, load, talk, keep the ledger."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from personaplex.core.answers.conversation import SPEAKERS, Told, write_conversation
from personaplex.core.answers.leftovers import sweep_outputs
from personaplex.core.answers.outputs import Run
from personaplex.core.answers.ownership import made_files, refuse_foreign
from personaplex.core.audio import reading
from personaplex.core.config import FRAME_RATE, PAD
from personaplex.core.corpus.results import TALK_SCHEMA, check_own_files, read_results
from personaplex.core.engine.call import context_warnings
from personaplex.core.engine.ending import Ending
from personaplex.core.engine.line import Line
from personaplex.core.engine.session import silence
from personaplex.core.engine.talk import SIDES, Conversation, LiveTalk, Side, Talked, TalkFailure, Talks, positions
from personaplex.core.errors import PersonaplexError
from personaplex.core.files import make_folder
from personaplex.core.weights.model import Model
from personaplex.runs.jobs import make_prompt, voice_or_error
from personaplex.runs.ledger import Counts, Ledger, Written
from personaplex.runs.models.located import LocatedModel, locate_model
from personaplex.runs.observer import Observer, Standing
from personaplex.runs.sizing import slots_for
from personaplex.runs.talk.planning import GOODBYE_SECONDS, PlannedTalk, leave_out_done, locate_voices, plan_talks
from personaplex.runs.talk.request import TalkRequest
from personaplex.runs.talk.rows import talk_row, write_talk_record

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TalkOutcome:
    """How conversations went, how often each flag was raised, and whether the observer stopped them."""

    counts: Counts
    flags: Mapping[str, int]
    stopped: bool


def run_talk(request: TalkRequest, observer: Observer) -> TalkOutcome:
    """Run conversations; raises PersonaplexError where nothing can be run. Those that fail are counted and told."""
    begun = time.perf_counter()
    planned = plan_talks(request)
    for warning in planned.warnings:
        log.warning("%s", warning)
    check_own_files(request.output, TALK_SCHEMA)
    make_folder(request.output)
    located = locate_model(request.model)
    planned, voices = locate_voices(planned, request, located)
    planned = leave_out_done(planned, request, located)
    counts = Counts(items=len(planned.run) + len(planned.done) + len(planned.refused))
    ledger = Ledger(request.output, planned.order, counts)
    for one, document in planned.done:
        ledger.skipped(talk_row(one.listed, document))
    for refused in planned.refused:
        ledger.refused(refused)
    stopped = False
    if planned.run and not counts.has_failed_over(request.max_failures):
        stopped = _Talking(planned.run, voices, request, located, ledger, observer).run()
    else:
        counts.not_run = len(planned.run)
        ledger.flush()
    counts.seconds = round(time.perf_counter() - begun, 3)
    return TalkOutcome(counts, ledger.flags(), stopped)


class _Talking:
    """Conversations on their way from the plan through the engine to their files and the ledger."""

    def __init__(
        self,
        planned: Sequence[PlannedTalk],
        voices: Mapping[str, Path],
        request: TalkRequest,
        located: LocatedModel,
        ledger: Ledger,
        observer: Observer,
    ) -> None:
        self._planned = {one.listed.id: one for one in planned}
        self._request = request
        self._ledger = ledger
        self._observer = observer
        self._rows = read_results(request.output)
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._written: deque[Written] = deque()
        sweep_outputs(path for one in planned for path in one.paths.all(request.outputs))
        self._model = located.load()
        self._voices = {name: voice_or_error(path, self._model) for name, path in voices.items()}

    def run(self) -> bool:
        """Run all of them; returns whether the observer stopped them."""
        before, request = self._ledger.counts.failed, self._request
        conversations = self._conversations()
        slots = slots_for(
            positions(conversations), SIDES * len(conversations), request.slots, self._model, self._observer, SIDES
        )
        self._run = Run.of(self._model, slots, request.sampling, "reference", request.outputs)
        write_talk_record(request, self._run, self._started)
        self._talks = Talks(self._model, slots, request.sampling, self._deliver, self._watch, request.graphs)
        with self._observer.running(sum(one.frames for one in conversations)):
            self._observer.failed(self._ledger.counts.failed)
            try:
                for outcome in self._talks.run(conversations):
                    if isinstance(outcome, TalkFailure):
                        self._failed(outcome.conversation.id, outcome.error)
                        self._observer.failed(self._ledger.counts.failed)
                    if self._ledger.counts.has_failed_over(request.max_failures) or self._observer.stop.is_set():
                        self._talks.stop()
                    self._record()
            finally:
                self._record()  # those too that were on their way when the run broke off
                self._ledger.flush()
        counts = self._ledger.counts
        counts.not_run = len(self._planned) - counts.done - (counts.failed - before)
        return self._observer.stop.is_set()

    def _conversations(self) -> list[Conversation]:
        """Those that can be run; none once too many have failed."""
        made = []
        for name, one in self._planned.items():
            try:
                self._refuse_foreign(one)
                made.append(self._conversation(one))
            except PersonaplexError as error:
                self._failed(name, error)
                if self._ledger.counts.has_failed_over(self._request.max_failures):
                    return []
        return made

    def _conversation(self, one: PlannedTalk) -> Conversation:
        scripts = _scripts(one, self._model)
        sides = []
        for side, script in zip(one.sides, scripts, strict=True):
            voice = self._voices[side.voice]
            if isinstance(voice, PersonaplexError):
                raise voice
            sides.append(Side(make_prompt(voice, side.text, self._model), side.seed, side.sampling, script))
        line = None if one.listed.row.line is None else Line(**one.listed.row.line.model_dump())
        request = self._request
        ending = Ending(
            silence=round(request.end_silence * FRAME_RATE) or None,
            goodbye=round(GOODBYE_SECONDS * FRAME_RATE) if request.ends_with_goodbye else None,
        )
        return Conversation(one.listed.id, (sides[0], sides[1]), one.frames, line, ending)

    def _failed(self, name: str, error: PersonaplexError) -> None:
        self._ledger.refused(self._planned[name].listed.refused(error))

    def _refuse_foreign(self, one: PlannedTalk) -> None:
        made = made_files(self._rows.get(one.listed.id), one.paths.json.parent)
        refuse_foreign(one.paths.all(self._request.outputs), one.paths.json, made)

    def _deliver(self, talked: Talked) -> None:
        """Write a conversation's files, on whatever thread; raises InputError."""
        one = self._planned[talked.conversation.id]
        make_folder(one.paths.wav.parent)
        self._refuse_foreign(one)
        warnings = tuple(
            f"{speaker}: {warning}"
            for speaker, side in zip(SPEAKERS, talked.conversation.sides, strict=True)
            for warning in context_warnings(side.prompt.steps, len(talked.tokens[0]), self._model.config)
        )
        document = write_conversation(talked, self._run, one.paths, Told(one.settings, warnings, self._started))
        live = talked.seconds["live"]
        self._written.append(Written(talk_row(one.listed, document), document["duration"], live))

    def _record(self) -> None:
        while self._written:
            self._ledger.done(self._written.popleft())

    def _watch(self, live: Sequence[LiveTalk]) -> None:
        standings = []
        for talk in live:
            done = len(talk.said)
            total = talk.conversation.frames if talk.reason is None else done
            standings.append(Standing(talk.conversation.id, done, total))
        self._observer.ticked(standings)
        if self._observer.stop.is_set():
            self._talks.stop()


def _scripts(one: PlannedTalk, model: Model) -> tuple[Tensor, Tensor]:
    """The forced frames of both sides, int64 [S, 9]: the opening of the one that begins, silence of the other one."""
    quiet, nothing = silence(model.config), torch.empty(0, 1 + len(silence(model.config)), dtype=torch.int64)
    row = one.listed.row
    if row.begins is None:
        return nothing, nothing
    opening = nothing[:, 1:]
    if one.opening is not None:
        opening = model.mimi.encode_call(torch.from_numpy(reading.read(one.opening).samples)).cpu()
    waits = max(round((row.lead_in or 0.0) * FRAME_RATE), len(opening))
    begins, waiting = _scripted(opening), _scripted(quiet.repeat(waits, 1))
    return (begins, waiting) if row.begins == "a" else (waiting, begins)


def _scripted(codes: Tensor) -> Tensor:
    """Frames int64 [S, 9] of codes [S, 8] without text."""
    return torch.cat([torch.full((len(codes), 1), PAD), codes], dim=1)
