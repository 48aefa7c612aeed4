"""A loaded model that answers calls."""

import logging
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from personaplex.api.answer import Answer, Failure, Origin
from personaplex.api.calls import Call, Settings, StrPath, call_source, calls_source, chosen
from personaplex.core.answers.leftovers import item_paths
from personaplex.core.answers.outputs import OutputOptions, OutputPaths, Run
from personaplex.core.corpus.items import Item, Source
from personaplex.core.corpus.sources import Product, expand, read_source
from personaplex.core.engine import job as engine
from personaplex.core.engine.batch import Batch
from personaplex.core.errors import PersonaplexError, UsageError
from personaplex.core.machine.device_errors import told_device_error
from personaplex.core.weights.model import Overrides
from personaplex.core.weights.published import HUB_MODEL
from personaplex.runs.choices import Dtype, Quantize
from personaplex.runs.jobs import make_jobs
from personaplex.runs.models.located import LocatedModel, ModelOptions, locate_model
from personaplex.runs.observer import Observer
from personaplex.runs.planning.plan import check_defaults, locate_voices, plan_source
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import CallOptions
from personaplex.runs.sizing import engine_plan

Answers = Generator[Answer | Failure, None, None]

log = logging.getLogger(__name__)


def load_model(
    name: str = HUB_MODEL,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    moshi_weight: StrPath | None = None,
    mimi_weight: StrPath | None = None,
    tokenizer: StrPath | None = None,
    cpu_offload: bool = False,
    cuda_graphs: bool = True,
    batch_invariant: bool = False,
    quantize: str = "none",
) -> "Model":
    """Load a model, downloading what is missing. It sets torch's switches for rounding, for the whole process.

    name: a hub id, a directory, or "tiny", which comes with the package.
    device: "auto", "cuda", "cuda:N", "mps" or "cpu".
    dtype: "bfloat16", "float16" or "float32"; "auto" keeps the type that the weights are stored in.
    revision: a commit, tag or branch of the hub's model.
    moshi_weight, mimi_weight, tokenizer: files in place of the model's own.
    cpu_offload: keep the large layers in host memory, for a small GPU.
    cuda_graphs: replay ticks as CUDA graphs, on a GPU that can.
    batch_invariant: on CUDA, the same bits for any number of slots, more slowly.
    quantize: "int8" holds the large layers in int8, in some 60 % of the memory.

    Raises ModelError for a model or a device that can't be had, UsageError for options that make no sense.
    """
    files = (None if file is None else Path(file) for file in (moshi_weight, mimi_weight, tokenizer))
    chosen_dtype = chosen(Dtype, dtype, "--dtype")
    held = chosen(Quantize, quantize, "--quantize")
    options = ModelOptions(name, revision, Overrides(*files), device, chosen_dtype, cpu_offload, batch_invariant, held)
    with _told():
        return Model(locate_model(options), graphs=cuda_graphs and not cpu_offload)


class Model:
    """A model in memory, made by `load_model`. It answers one thread's calls at a time."""

    def __init__(self, located: LocatedModel, graphs: bool) -> None:
        self._located = located
        self._model = located.load()
        self._graphs = graphs

    @property
    def name(self) -> str:
        """The model's name, as transcripts have it."""
        return self._model.name

    @property
    def device(self) -> str:
        """Where it runs, such as "cpu" or "cuda:0"."""
        return str(self._model.device)

    def answer(self, call: Call, settings: Settings | None = None) -> Answer:
        """Answer one call, as `personaplex offline` does: without a seed of its own, with that of the settings.

        Raises InputError for audio that can't be used, VoiceError for a voice that can't be, UsageError for anything
        else that makes no sense, ModelError where the device can't do its work.
        """
        wanted = settings or Settings()
        outcomes = self._outcomes(call_source(call, wanted.seed), wanted, slots=1)
        with closing(outcomes):
            outcome = next(outcomes)
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    def answers(
        self,
        source: StrPath | Iterable[Call],
        settings: Settings | None = None,
        *,
        glob: str | None = None,
        slots: int | None = None,
    ) -> Answers:
        """Answer many calls, as `personaplex batch` does, and give each answer as soon as its call ends.

        source: a directory, which is walked; a manifest (.jsonl, .csv), either perhaps by its URL; or calls.
        glob: which files of a directory, such as "*.flac".
        slots: calls at a time; None takes as many as fit into memory.

        Calls run while the next answer is asked for, and no more answers wait than there are slots, or two. To stop
        early, `close()` the iterator, or let go of it: the calls in the slots are dropped. A call that can't be run
        is a `Failure` in its place and ends nothing.

        Raises UsageError or VoiceError at once for a source or settings that make no sense, and where no call can be
        run; while it is iterated, ModelError where the device can't do its work.
        """
        if slots is not None and slots < 1:
            raise UsageError(f"slots is {slots}", "give 1 or more, or None for as many as fit into memory")
        if isinstance(source, str | os.PathLike):
            found = read_source(os.fspath(source), glob, None)
        elif glob is not None:
            raise UsageError("glob chooses files in a directory", "leave it out for calls")
        else:
            found = calls_source(source)
        return self._outcomes(found, settings or Settings(), slots)

    def _outcomes(self, source: Source, settings: Settings, slots: int | None) -> Answers:
        """Check and prepare a source's calls, and return what runs them."""
        defaults, options = settings.defaults, settings.options(slots, self._graphs)
        check_defaults(defaults)
        with _told():
            planned = plan_source(replace(source, items=expand(source.items, Product())), defaults, _paths)
            planned, voices = locate_voices(planned, defaults.voice_folder, (defaults.voice,), self._located)
            for warning in (*planned.warnings, *planned.passed_over.surprising()):
                log.warning("%s", warning)
            failures = [Failure(refused.id, refused.error) for refused in planned.refused]

            def failed(item: PlannedItem, error: PersonaplexError) -> bool:
                failures.append(Failure(item.item.id, error))
                return False

            jobs = make_jobs(planned.items, voices, options, self._model, lambda item: None, failed)
        return self._run(jobs, {item.item.id: item for item in planned.items}, voices, options, failures)

    def _run(
        self,
        jobs: Sequence[engine.Job],
        items: dict[str, PlannedItem],
        voices: dict[str, Path],
        options: CallOptions,
        failures: Sequence[Failure],
    ) -> Answers:
        yield from failures
        started = datetime.now(UTC).isoformat(timespec="seconds")
        with _told():
            plan = engine_plan(jobs, options, self._model, Observer())
            run = Run.of(self._model, plan.slots, plan.sampling, plan.align, OutputOptions())

            def deliver(response: engine.Response) -> Answer:
                item = items[response.job.id]
                return Answer.of(Origin(response, run, item.item.source, voices[item.voice], started), item.paths)

            with closing(Batch(self._model, plan, deliver).run(jobs)) as outcomes:
                for outcome in outcomes:
                    yield Failure(outcome.job.id, outcome.error) if isinstance(outcome, engine.Failure) else outcome


def _paths(item: Item) -> OutputPaths:
    """How `personaplex batch` names an item's files."""
    return item_paths(Path(), item.id, mix=False)


@contextmanager
def _told() -> Iterator[None]:
    """Raise what a device says as the error that the command line tells; a bug keeps its traceback."""
    try:
        yield
    except PersonaplexError:
        raise
    except Exception as error:
        told = told_device_error(error)
        if told is None:
            raise
        raise told from error
