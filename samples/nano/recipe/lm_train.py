r"""Stage `lm`: trains the small language model on calls mixed from units.

    python -m torch.distributed.run --nproc-per-node 2 -m personaplex.samples.nano.recipe.lm_train \
        RUN --threads 1 --steps 4000

reads RUN/units.pt, RUN/mimi.safetensors and RUN/tokenizer.model. Run again, it goes on from RUN/lm.pt. At first it only
hears callers, which is hardest to learn; then lessons in hearing, in reading prompts and in whole calls alternate.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from personaplex.core.config import STREAMS
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.samples.nano.recipe import domain, workers
from personaplex.samples.nano.recipe.exam import examine, questions
from personaplex.samples.nano.recipe.freeze import read_codec
from personaplex.samples.nano.recipe.mix import Kind, Mixer
from personaplex.samples.nano.recipe.timeline import Call
from personaplex.samples.nano.recipe.trainee import PARTS, WEIGHTS, Batch, Lesson, Trainee, batched, lm_config

SHARES = {Kind.QUESTIONS: 0.5, Kind.FACTS: 0.2, Kind.WHOLE: 0.3}
BUCKET = 8  # batches that are drawn at once and sorted by length
LESSONS = (Lesson.READING, Lesson.CALLS, Lesson.HEARING, Lesson.CALLS, Lesson.READING, Lesson.CALLS)  # step by step
ROWS = {Lesson.HEARING: 8, Lesson.READING: 2, Lesson.CALLS: 1}  # that take about the time of a call
REPORT, EXAM, KEEP = 25, 100, 50  # steps


@dataclass(frozen=True)
class Course:
    """How long and how fast: of `steps` steps of `batch` calls, the first `hearing` hear callers alone."""

    steps: int
    hearing: int
    batch: int
    rate: float

    def lesson(self, step: int) -> Lesson:
        """What a step teaches."""
        return Lesson.HEARING if step < self.hearing else LESSONS[step % len(LESSONS)]

    def rate_at(self, step: int) -> float:
        """Warm-up over 100 steps, then a cosine down to a fiftieth."""
        return self.rate * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / self.steps)) / 2)


def batches(mixer: Mixer, initial: Tensor, size: int, seed: tuple[int, ...], lesson: Lesson) -> Iterator[Batch]:
    """Batches of a lesson without end, in each what is about equally long."""
    rng = random.Random(repr((*seed, lesson.value)))  # noqa: S311 - variety, not secrets
    count = size * ROWS[lesson]

    def drawn() -> Call:
        if lesson is Lesson.HEARING:
            return mixer.utterance(rng)
        if lesson is Lesson.READING:
            return mixer.reading(rng)
        return mixer.call(rng, rng.choices(list(SHARES), list(SHARES.values()))[0])

    while True:
        calls = sorted((drawn() for _ in range(BUCKET * count)), key=lambda call: len(call.frames))
        groups = [calls[first : first + count] for first in range(0, len(calls), count)]
        rng.shuffle(groups)
        for group in groups:
            yield batched(group, initial, lesson)


def train(run: Path, course: Course) -> None:
    """Train to the end of the course; RUN/lm.pt is written every `KEEP` steps."""
    mixer = Mixer(torch.load(run / "units.pt", weights_only=True), Tokenizer(run / "tokenizer.model"))
    rank, size = workers.join()
    torch.manual_seed(1)
    config = lm_config(mixer.tokenizer.vocab_size)
    initial = torch.tensor([config.text_vocab] + [config.audio_vocab] * (STREAMS - 1))
    trainee = Trainee(config, mixer.silence, len(domain.intents()))
    trainee.embed_as(read_codec(run / "mimi.safetensors"))
    learned = list(trainee.parameters())
    optimizer = torch.optim.AdamW(learned, lr=course.rate, betas=(0.9, 0.95), weight_decay=0.02, fused=True)
    step, file = 0, run / "lm.pt"
    if file.exists():
        kept = torch.load(file, weights_only=True)
        trainee.load_state_dict(kept["trainee"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
    torch.manual_seed(1000 * step + rank)
    told, exam = Told(), questions(mixer)
    drawn = {lesson: batches(mixer, initial, course.batch // size, (step, rank), lesson) for lesson in Lesson}
    log = Log(run / ("lm.log" if rank == 0 else f"lm.{rank}.log"))
    numbers = sum(p.numel() for p in trainee.lm.parameters())
    log.line(f"# {numbers} parameters, {size} workers, {course}")
    while step < course.steps:
        for group in optimizer.param_groups:
            group["lr"] = course.rate_at(step)
        lesson = course.lesson(step)
        told.add(lesson, _step(trainee, next(drawn[lesson]), optimizer))
        step += 1
        if step % REPORT == 0:
            log.line(f"{step} {told.taken()}")
        if rank == 0 and step % EXAM == 0:
            known = examine(trainee, exam, initial)
            log.line(f"{step} knows " + " ".join(f"{what} {right}/{of}" for what, (right, of) in known.items()))
        if rank == 0 and (step % KEEP == 0 or step == course.steps):
            keep({"trainee": trainee.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)


class Told:
    """The losses of some steps, to be told as means."""

    def __init__(self) -> None:
        self._losses: dict[str, list[float]] = {}

    def add(self, lesson: Lesson, parts: Tensor) -> None:
        """Add the losses of a step; that of what is read from prompts alone is a part of its own."""
        for name, value in zip(PARTS, parts.tolist(), strict=True):
            if value:
                part = "read" if lesson is Lesson.READING and name == "text" else name
                self._losses.setdefault(part, []).append(value)

    def taken(self) -> str:
        """Their means, which start afresh."""
        means = {name: sum(values) / len(values) for name, values in self._losses.items()}
        self._losses = {}
        return " ".join(f"{name} {means[name]:.3f}" for name in (*PARTS, "read") if name in means)


class Log:
    """Lines in a file, with the seconds since it was opened."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._began = time.monotonic()

    def line(self, text: str) -> None:
        """Add a line at once."""
        print(f"{text} s {time.monotonic() - self._began:.0f}", file=self._file, flush=True)


def _step(trainee: Trainee, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        parts: Tensor = trainee(batch)
    optimizer.zero_grad()
    (parts * parts.new_tensor(WEIGHTS)).sum().backward()
    learned = [p for group in optimizer.param_groups for p in group["params"]]
    workers.average_gradients(learned)
    nn.utils.clip_grad_norm_(learned, 1.0)
    optimizer.step()
    return parts.detach()


def keep(state: dict[str, Any], file: Path) -> None:
    """Write a file whole or not at all."""
    torch.save(state, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--hearing", type=int, default=800, help="of the steps, those that hear callers alone")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train(options.run, Course(options.steps, options.hearing, options.batch, options.rate))


if __name__ == "__main__":
    main()
