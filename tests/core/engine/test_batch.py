"""A queue of calls through the slots: each call's response is its own, whatever runs beside, before or after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
import torch

from personaplex.core.audio.reading import planned_frames
from personaplex.core.engine.batch import Batch, Live, Plan, positions
from personaplex.core.engine.job import Failure, Job, Prompt, Response
from personaplex.core.errors import InputError
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling
from personaplex.samples import tiny

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from personaplex.core.weights.model import Model

# Seconds and rate of each call.
CALLS = {"a": (0.9, 8000), "b": (0.05, 16_000), "c": (1.2, 24_000), "d": (0.4, 44_100), "e": (0.64, 24_000)}


def packed(model: Model) -> Model:
    pack(model.lm)
    return model


def sound(folder: Path, name: str, samples: npt.NDArray[np.float64], rate: int = 24_000) -> Path:
    path = folder / f"{name}.wav"
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return path


def job(path: Path, prompt: Prompt, seed: int = 1) -> Job:
    return Job(path.stem, path, prompt, seed, planned_frames(path))


@pytest.fixture
def jobs(tmp_path: Path, prompts: list[Prompt]) -> list[Job]:
    """A job for each of the calls, with the two prompts in turn."""
    made = []
    for number, (name, (seconds, rate)) in enumerate(CALLS.items()):
        noise = 0.1 * np.random.default_rng(number).standard_normal(round(seconds * rate))
        made.append(job(sound(tmp_path, name, noise, rate), prompts[number % 2], number))
    return made


def run(model: Model, plan: Plan, jobs: Sequence[Job]) -> dict[str, Response]:
    outcomes = list(Batch(model, plan, lambda response: response).run(jobs))
    assert all(isinstance(outcome, Response) for outcome in outcomes)
    return {outcome.job.id: outcome for outcome in outcomes if isinstance(outcome, Response)}


def assert_same(found: Response, expected: Response) -> None:
    assert np.array_equal(found.tokens, expected.tokens)
    assert np.array_equal(found.user_codes, expected.user_codes)
    assert found.samples.tobytes() == expected.samples.tobytes()


@pytest.mark.parametrize(
    ("dtype", "int8", "greedy"),
    [("float32", False, False), ("bfloat16", False, False), ("bfloat16", False, True), ("bfloat16", True, False)],
)
def test_a_response_is_the_calls_own(jobs: list[Job], dtype: str, int8: bool, greedy: bool) -> None:
    model, sampling = tiny.load(torch.device("cpu"), getattr(torch, dtype)), Sampling(greedy=greedy)
    if int8:
        model.lm.temporal.hold_int8()
    packed(model)
    alone = {job.id: run(model, Plan(1, sampling), [job])[job.id] for job in jobs}
    assert len({response.samples.tobytes() for response in alone.values()}) == len(jobs)
    for slots, order in ((1, jobs[::-1]), (3, jobs), (8, jobs[2:] + jobs[:2])):
        together = run(model, Plan(slots, sampling), order)
        assert together.keys() == alone.keys()
        for name, response in together.items():
            assert_same(response, alone[name])


def test_a_loud_call_leaves_nothing_in_its_slot(model: Model, tmp_path: Path, prompts: list[Prompt]) -> None:
    loud = job(sound(tmp_path, "loud", np.sign(np.sin(np.arange(24_000) / 5))), prompts[1])
    silent = job(sound(tmp_path, "silent", np.zeros(12_000)), prompts[0])
    plan = Plan(1, Sampling(greedy=True))
    assert_same(run(model, plan, [silent, loud])["silent"], run(model, plan, [silent])["silent"])


def test_a_responses_form(model: Model, jobs: list[Job]) -> None:
    for align in ("reference", "model"):
        for name, response in run(model, Plan(2, align=align), jobs).items():
            frames = len(response.tokens)
            assert frames == response.job.frames
            assert response.tokens.shape == (frames, 9)
            assert response.user_codes.shape == (frames, 8)
            assert len(response.samples) == round(round(CALLS[name][0] * CALLS[name][1]) * 24_000 / CALLS[name][1])
            assert {"read", "encode", "prompt", "live", "decode"} <= response.seconds.keys()


def test_the_longest_calls_go_first_and_slots_are_refilled(model: Model, jobs: list[Job]) -> None:
    begun: list[str] = []
    most = 0

    def watch(calls: Sequence[Live]) -> None:
        nonlocal most
        most = max(most, len(calls))
        begun.extend(call.job.id for call in calls if call.job.id not in begun)
        assert all(1 <= len(call.frames) <= call.total for call in calls)

    list(Batch(model, Plan(2), lambda response: response, watch).run(jobs))
    assert begun == ["c", "a", "e", "d", "b"]
    assert most == 2


def test_a_call_that_fails_fails_alone(model: Model, jobs: list[Job], prompts: list[Prompt], tmp_path: Path) -> None:
    broken = [
        Job("missing", tmp_path / "none.wav", prompts[0], 1, 5),
        Job("nan", sound(tmp_path, "nan", np.full(9000, np.nan)), prompts[0], 1, 30),
        Job("channel", jobs[0].input, prompts[0], 1, 9, channel="right"),
    ]
    alone = run(model, Plan(1), jobs)
    outcomes = list(Batch(model, Plan(2), lambda response: response).run([broken[0], *jobs, *broken[1:]]))
    reasons = {outcome.job.id: outcome.error.what for outcome in outcomes if isinstance(outcome, Failure)}
    assert reasons.keys() == {"missing", "nan", "channel"}
    assert "No such file" in reasons["missing"]
    assert "not a finite number" in reasons["nan"]
    assert 'no channel "right"' in reasons["channel"]
    for outcome in outcomes:
        if isinstance(outcome, Response):
            assert_same(outcome, alone[outcome.job.id])
    assert len(outcomes) == 8


def test_a_delivery_that_fails_fails_alone(model: Model, jobs: list[Job]) -> None:
    def deliver(response: Response) -> str:
        if response.job.id == "a":
            raise InputError("the disk is full")
        return response.job.id

    outcomes = list(Batch(model, Plan(3), deliver).run(jobs))
    assert sorted(outcome for outcome in outcomes if isinstance(outcome, str)) == ["b", "c", "d", "e"]
    assert [outcome.error.what for outcome in outcomes if isinstance(outcome, Failure)] == ["the disk is full"]


def test_stop_begins_nothing_new_and_delivers_what_is_complete(model: Model, jobs: list[Job]) -> None:
    delivered: list[str] = []
    batch = Batch(model, Plan(1), lambda response: delivered.append(response.job.id))
    outcomes = batch.run(jobs)
    next(outcomes)
    batch.stop()
    rest = list(outcomes)
    assert delivered == ["c", "a", "e", "d", "b"][: 1 + len(rest)]
    assert len(rest) < 4


def test_stop_before_the_start(model: Model, jobs: list[Job]) -> None:
    batch = Batch(model, Plan(1), lambda response: response)
    batch.stop()
    assert list(batch.run(jobs)) == []


def test_no_jobs(model: Model) -> None:
    assert list(Batch(model, Plan(3), lambda response: response).run([])) == []


def test_positions(jobs: list[Job]) -> None:
    longest = max(job.prompt.steps + job.frames for job in jobs)
    assert positions(jobs, "reference") == longest
    assert positions(jobs, "model") == longest + 1
