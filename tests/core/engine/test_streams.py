"""A batch on a stand-in for CUDA: which streams its workers are given, what waits, and what a full memory costs."""

from __future__ import annotations

import threading
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
import torch

from personaplex.core.engine.batch import AHEAD, Batch, Plan, queue_length
from personaplex.core.engine.graphs import StepGraphs
from personaplex.core.engine.job import Failure, Job, NamedVoice, Prompt, Response
from personaplex.core.engine.session import RecordedVoice
from personaplex.core.engine.streams import SideStreams, workers
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.products import pack
from personaplex.core.weights.model import Model
from personaplex.samples import tiny

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.engine.conftest import FakeCuda

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FRAMES = 2


class OnCuda(Model):
    """A model on the CPU that says it is on a GPU, so that a batch treats it so."""

    @property
    def device(self) -> torch.device:
        return GPU


@pytest.fixture(scope="module")
def model() -> Model:
    real = tiny.load(CPU)
    pack(real.lm)
    return OnCuda(**{field.name: getattr(real, field.name) for field in fields(real)})


@pytest.fixture
def jobs(tmp_path: Path) -> Callable[[int], list[Job]]:
    """So many equal calls, each with a seed of its own."""
    path = tmp_path / "a.wav"
    soundfile.write(path, 0.1 * np.random.default_rng(1).standard_normal(FRAMES * 1920), 24_000)
    codes = torch.randint(2048, (3, 8), generator=torch.Generator().manual_seed(1))
    prompt = Prompt(NamedVoice("v", "v", RecordedVoice(codes)), "", ())
    return lambda count: [Job(str(number), path, prompt, number, FRAMES) for number in range(count)]


def test_streams_are_few_and_none_is_a_captures(
    model: Model, jobs: Callable[[int], list[Job]], fake_cuda: FakeCuda
) -> None:
    """CUDA's pool of 32 streams comes round in a batch of 40 calls, if each takes some."""
    graphs = StepGraphs([torch.zeros(1)])
    graphs.run(128, lambda: torch.ones(1))
    captured = set(fake_cuda.captured)
    outcomes = list(Batch(model, Plan(8), lambda response: response.job.id).run(jobs(40)))
    assert sorted(map(str, outcomes), key=int) == [str(number) for number in range(40)]
    assert 0 < len(fake_cuda.used - captured) <= 4
    assert captured.isdisjoint(fake_cuda.used - captured)
    for length in range(100):
        graphs.run(length, lambda: torch.ones(1))
    assert fake_cuda.captured == captured
    assert {priority for priority, _ in captured} == {-1}
    assert len(fake_cuda.pools) == 1


def test_streams_are_made_in_one_place() -> None:
    """What makes one elsewhere may be given the stream of a capture."""
    root = Path(__file__).parents[3]
    makers = [path.name for path in (root / "core").rglob("*.py") if "torch.cuda.Stream(" in path.read_text("utf-8")]
    assert sorted(makers) == ["graphs.py", "streams.py"]


@pytest.mark.usefixtures("fake_cuda")
def test_the_engine_waits_for_no_delivery(model: Model, jobs: Callable[[int], list[Job]]) -> None:
    """Eight calls end in one tick; none is delivered before the next eight have ended, too."""
    ticks, all_ticked = [0], threading.Event()

    def watch(_live: Any) -> None:
        ticks[0] += 1
        if ticks[0] == 2 * FRAMES:
            all_ticked.set()

    def deliver(response: Response) -> bool:
        return all_ticked.wait(60) and response.job.id != ""

    assert list(Batch(model, Plan(8), deliver, watch).run(jobs(16))) == [True] * 16


def test_queues_are_as_long_as_the_slots_on_cuda_alone() -> None:
    assert [queue_length(GPU, slots) for slots in (1, 64)] == [AHEAD, 64]
    assert queue_length(CPU, 64) == queue_length(torch.device("mps"), 64) == AHEAD


def test_apples_gpu_has_one_thread() -> None:
    """Its work is done where it is asked for; an error comes with the result, as from a thread."""
    device = torch.device("mps")
    with workers("encode", SideStreams(device), device) as worker:
        assert worker.submit(threading.get_ident).result() == threading.get_ident()
        future = worker.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        future.result()


def full(real: Any, times: int) -> Callable[..., Any]:
    """A method that finds the memory full the first times it is called."""
    lock, left = threading.Lock(), [times]

    def method(*arguments: Any) -> Any:
        with lock:
            left[0] -= 1
            if left[0] >= 0:
                raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(*arguments)

    return method


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize("place", ["encode_call", "decode_call"])
def test_a_full_memory_is_tried_again(
    model: Model, jobs: Callable[[int], list[Job]], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {o.job.id: o for o in Batch(model, Plan(2), lambda response: response).run(jobs(3))}
    monkeypatch.setattr(Mimi, place, full(getattr(Mimi, place), 1))
    for outcome in Batch(model, Plan(2), lambda response: response).run(jobs(3)):
        assert isinstance(outcome, Response)
        assert outcome.samples.tobytes() == expected[outcome.job.id].samples.tobytes()


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize("place", ["encode_call", "decode_call"])
def test_a_memory_that_stays_full_fails_its_call_alone(
    model: Model, jobs: Callable[[int], list[Job]], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(Mimi, place)
    first: list[int] = []
    lock = threading.Lock()

    def method(mimi: Mimi, given: torch.Tensor) -> torch.Tensor:
        with lock:
            first.append(threading.get_ident())
            fails = threading.get_ident() == first[0] and first.count(first[0]) <= 2
        if fails:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        found: torch.Tensor = real(mimi, given)
        return found

    monkeypatch.setattr(Mimi, place, method)
    outcomes = list(Batch(model, Plan(2), lambda response: response).run(jobs(4)))
    (failure,) = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    assert len(outcomes) == 4
    assert failure.error.what == "cuda: not enough memory left for this call beside those in the slots"
    assert "--slots" in (failure.error.mend or "")
