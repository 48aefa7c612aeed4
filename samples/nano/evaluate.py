"""Measures a small model of the recipe on calls that were kept out of its training.

    python -m personaplex.samples.nano.evaluate FOLDER OUT

prints a table and writes OUT/N.wav, what the agent said, with OUT/rows.json, its words: recipe/hear.py tells how well
they are understood and whose voice they are in. Needs flite and espeak-ng, which the callers speak by.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import soundfile
import torch

from personaplex.core.audio.activity import caller_frames
from personaplex.core.audio.loudness import normalise_loudness
from personaplex.core.audio.reading import planned_frames, read
from personaplex.core.config import FRAME_RATE, SAMPLE_RATE
from personaplex.core.engine.batch import Batch, Plan
from personaplex.core.engine.job import Failure, Job, NamedVoice, Prompt, Response
from personaplex.core.engine.session import RecordedVoice
from personaplex.core.nn.products import pack
from personaplex.core.weights.model import Model, load, locate
from personaplex.samples.nano.recipe import domain
from personaplex.samples.nano.recipe.callers import Caller
from personaplex.samples.nano.recipe.recoded import recoded

GREETING = 6.6  # seconds in which the agent can greet
ANSWER = 5.5
SHORT = 10  # seconds of the call whose whole process is timed
BREAK_IN = 1.5  # seconds from the end of a question to the one that breaks in
LINES = {
    "answers: speaks within 2 s of the caller's turn": "at least 90 %",
    "listens: speech over the caller's speech": "at most 10 %",
    "on topic: the answer fits what was asked": "at least 80 %",
    "informed: tells which of its facts the prompt holds": "",
    "in role: the greeting names company and agent": "at least 80 %",
    "yields: stops within 1 s": "at least 70 %",
}


@dataclass(frozen=True)
class Turn:
    """A caller's question: which, the right answer, and its seconds."""

    intent: domain.Intent
    answer: str
    start: float
    end: float
    breaks_in: bool


@dataclass(frozen=True)
class Script:
    """A call to be made: what the agent is told, in which voice, and what the caller says when."""

    role: str
    company: str
    name: str
    voice: str
    turns: tuple[Turn, ...]


def scripted(number: int, voices: Sequence[str], file: Path) -> Script:
    """A call with a new caller, new questions and a new pair of names; its recording is written to `file`."""
    rng = random.Random(f"call {number}")  # noqa: S311 - variety, not secrets
    caller = Caller.drawn(random.Random(f"True {number % 8}"))  # noqa: S311
    desk = domain.ALL[number % len(domain.ALL)]
    company, name = rng.choice([(c, n) for c in desk.companies for n in domain.NAMES if domain.is_held_out(c, n)])
    asked = [*rng.sample([*desk.intents, domain.HOURS], 2), domain.GOODBYE]
    answers = {intent: rng.choice(intent.answers) for intent in domain.intents()}
    role = domain.role(desk, company, name, [answers[intent] for intent in domain.variable(desk)])
    breaking = number % 2 == 1
    sound, turns = [np.zeros(round(GREETING * SAMPLE_RATE), np.float32)], []
    at = GREETING
    for place, intent in enumerate(asked):
        said = caller.say(intent.ways(held_out=True)[0])
        turns.append(Turn(intent, answers[intent], at, at + len(said) / SAMPLE_RATE, breaking and place == 1))
        pause = BREAK_IN if breaking and place == 0 else ANSWER
        sound += [said, np.zeros(round(pause * SAMPLE_RATE), np.float32)]
        at = turns[-1].end + pause
    whole = np.concatenate(sound)
    soundfile.write(file, whole + caller.line(len(whole), np.random.default_rng(number)), SAMPLE_RATE)
    return Script(role, company, name, voices[number // 2 % len(voices)], tuple(turns))


def answered(model: Model, scripts: Sequence[Script], folder: Path) -> list[Response]:
    """What the agent says in each call."""
    voices = {file: recorded(Path(file), model) for file in {script.voice for script in scripts}}
    jobs = []
    for number, script in enumerate(scripts):
        prompt = Prompt(voices[script.voice], script.role, tuple(model.tokenizer.prompt_ids(script.role)))
        file = folder / f"{number}.caller.wav"
        jobs.append(Job(str(number), file, prompt, number, planned_frames(file)))
    outcomes = list(Batch(model, Plan(8, align="model"), lambda response: response).run(jobs))
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise outcome.error
    return sorted((o for o in outcomes if isinstance(o, Response)), key=lambda response: int(response.job.id))


def recorded(file: Path, model: Model) -> NamedVoice:
    """The voice in a recording."""
    recording = read(file)
    samples = normalise_loudness(recording.samples, SAMPLE_RATE, name=file.stem)
    codes = model.mimi.encode_call(torch.from_numpy(samples))
    return NamedVoice(file.stem, recording.info.sha256, RecordedVoice(codes))


def judged(script: Script, response: Response, model: Model) -> Iterator[tuple[str, float, float]]:
    """Of each measure, how much of how much."""
    answers, listens, topic, informed, role, yields = LINES
    speaks = caller_frames(response.samples)

    def share(start: float, end: float) -> tuple[float, float]:
        part = speaks[round(start * FRAME_RATE) : round(end * FRAME_RATE)]
        return float(part.sum()), float(len(part))

    def said(start: float, end: float) -> str:
        return model.tokenizer.decode(response.tokens[round(start * FRAME_RATE) : round(end * FRAME_RATE), 0].tolist())

    ends = [*(turn.start for turn in script.turns[1:]), len(speaks) / FRAME_RATE]
    greeting = said(0, script.turns[0].start)
    yield role, float(script.company in greeting and script.name in greeting), 1
    for turn, following in zip(script.turns, [*script.turns[1:], None], strict=True):
        end = ends[script.turns.index(turn)]
        if turn.breaks_in:
            yield yields, float(share(turn.start + 1, turn.end)[0] == 0), 1
        else:
            yield listens, *share(turn.start, turn.end)
        if following is None or not following.breaks_in:
            yield answers, float(share(turn.end, turn.end + 2)[0] > 0), 1
            answer = nearest(said(turn.end - 0.2, end))
            yield topic, float(answer in turn.intent.answers), 1
            if answer in turn.intent.answers and len(turn.intent.answers) > 1:
                yield informed, float(answer == turn.answer), 1


def nearest(text: str) -> str:
    """The answer that a text is most like; "" where it is like none."""
    known = [answer for intent in domain.intents() for answer in intent.answers]
    likeness = [SequenceMatcher(None, text.split(), answer.split()).ratio() for answer in known]
    best = max(range(len(known)), key=likeness.__getitem__)
    return known[best] if likeness[best] > 0.5 else ""


def times_real_time(model: Model, script: Script, folder: Path) -> float:
    """The speed of one call, alone."""
    start = time.perf_counter()
    (response,) = answered(model, [script], folder)
    return len(response.samples) / SAMPLE_RATE / (time.perf_counter() - start)


def whole_process(model: Path, script: Script, folder: Path) -> float:
    """The seconds that the command line takes for a call of `SHORT` seconds, from its start to its end."""
    caller, agent = folder / "short.caller.wav", folder / "short.wav"
    samples, _ = soundfile.read(folder / "0.caller.wav", frames=SHORT * SAMPLE_RATE, dtype="float32")
    soundfile.write(caller, samples, SAMPLE_RATE)
    prompts = ["--voice-prompt", script.voice, "--text-prompt", script.role]
    files = ["--model", str(model), "--input-wav", str(caller), "--output-wav", str(agent)]
    command = [str(Path(sys.executable).with_name("personaplex")), "offline", *files, *prompts]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return time.perf_counter() - start


def table(scripts: Sequence[Script], responses: Sequence[Response], model: Model) -> Iterator[str]:
    """The lines of `LINES`."""
    totals = {measure: [0.0, 0.0] for measure in LINES}
    for script, response in zip(scripts, responses, strict=True):
        for measure, got, of in judged(script, response, model):
            totals[measure][0] += got
            totals[measure][1] += of
    for measure, (got, of) in totals.items():
        yield f"{measure:<50} {100 * got / max(of, 1):5.1f} % of {of:.0f}   {LINES[measure]}".rstrip()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the model directory")
    parser.add_argument("out", type=Path)
    parser.add_argument("--calls", type=int, default=16)
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    model = load(locate(str(options.folder)), torch.device("cpu"))
    pack(model.lm)
    voices = sorted(map(str, (options.folder / "voices").glob("*.wav")))
    scripts = [scripted(n, voices, out / f"{n}.caller.wav") for n in range(options.calls)]
    responses = answered(model, scripts, out)
    print(*table(scripts, responses, model), sep="\n")
    rows = recoded(model.mimi, out)
    for number, (script, response) in enumerate(zip(scripts, responses, strict=True)):
        soundfile.write(out / f"{number}.wav", response.samples, SAMPLE_RATE)
        text = model.tokenizer.decode(response.tokens[:, 0].tolist())
        rows.append({"file": f"{number}.wav", "text": text, "of": "calls", "voice": script.voice})
    (out / "rows.json").write_text(json.dumps(rows, indent=2))
    print(f"one call: {times_real_time(model, scripts[0], out):.1f} x real time, at least 1")
    print(f"whole process for a call of {SHORT} s: {whole_process(options.folder, scripts[0], out):.1f} s, at most 10")


if __name__ == "__main__":
    main()
