#!/usr/bin/env python3
"""Everything a GPU must show, in under ten minutes: python benchmarks/gpu.py [--output FILE.json]

Needs the package with its dev extra and a GPU that CUDA runs on; downloads nothing. It prints what it finds as it goes,
skips what does not fit into the card's memory, ends in tables to paste, and exits with 1 where an identity fails.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from safetensors.torch import load_file

from personaplex.core.config import CODEBOOKS, PERSONAPLEX_7B
from personaplex.core.engine.batch import Batch, Plan
from personaplex.core.engine.job import Job, NamedVoice, Prompt, Response
from personaplex.core.engine.session import EmbeddedVoice, Persona, RecordedVoice, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.lm.model import LM
from personaplex.core.machine import bench, memory
from personaplex.core.nn import fused
from personaplex.core.nn.precision import cuda_info
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import load, locate
from personaplex.samples import tiny

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from conftest import CASES, ParityCase, write_model  # noqa: E402 (found in the folder above)

CUDA = torch.device("cuda")
FRAMES = 40
CALLS = 80
WIDE = replace(PERSONAPLEX_7B, lm=replace(PERSONAPLEX_7B.lm, num_layers=2))
"""Two layers of the 7B's widths, in which each shape of product and of attention occurs."""


@dataclass
class Report:
    """What was found, told at once. An identity that fails is an error unless it is only `hoped` for."""

    found: dict[str, bool] = field(default_factory=dict)
    failed: bool = False

    def identity(self, name: str, equal: bool, hoped: bool = False) -> None:
        """Note and print whether two things that should be equal are."""
        self.found[name] = equal
        self.failed |= not equal and not hoped
        print(f"- {name}: {'equal' if equal else 'different' if hoped else 'DIFFERENT'}", flush=True)


def parity(report: Report) -> None:
    """Whether each recorded case gives the reference's tokens, greedy, in float32."""
    for name in CASES:
        case = ParityCase(TESTS / "data" / "parity" / name)
        with tempfile.TemporaryDirectory() as folder:
            write_model(case, Path(folder), steps=16, shards=1)
            model = load(locate(folder), CUDA, torch.float32)
        stored = torch.load(case.path / "voice.pt", weights_only=True)
        voice = EmbeddedVoice(stored["embeddings"][:, 0, 0], stored["cache"][0])
        with torch.inference_mode():
            persona = prefill(model.lm, model.config, voice, model.tokenizer.prompt_ids(case.facts["text_prompt"]))
        expected = load_file(case.path / "expected.safetensors")
        codes = expected["user_codes"].long()
        frames = play(model.lm, 1, {0: (persona, codes)}, Sampling(greedy=True), graphs=False)[0]
        report.identity(f"parity, {name}", torch.equal(frames, expected["tokens"][:, :9].long()))


def play(
    lm: LM, slots: int, calls: dict[int, tuple[Persona, torch.Tensor]], sampling: Sampling, graphs: bool
) -> dict[int, torch.Tensor]:
    """Frames int64 [F, 9] of calls by slot; the call in slot s has the seed of its codes' sum."""
    length = max(len(codes) for _, codes in calls.values())
    engine = Engine(lm, slots, max(persona.steps for persona, _ in calls.values()) + length, sampling, graphs)
    for slot, (persona, codes) in calls.items():
        engine.admit(slot, persona, int(codes.sum()), length)
    user = torch.zeros(length, slots, CODEBOOKS, dtype=torch.int64)
    for slot, (_, codes) in calls.items():
        user[: len(codes), slot] = codes
    frames = torch.stack([engine.step(tick) for tick in user]).cpu()
    return {slot: frames[: len(codes), slot] for slot, (_, codes) in calls.items()}


def independence(report: Report) -> None:
    """Whether a call's tokens hang on neighbours, places, graphs and slots, at the 7B's widths."""
    generator = torch.Generator().manual_seed(0)
    lm, _ = bench.random_model(WIDE, CUDA, torch.bfloat16, seed=1)

    def call(context: int) -> tuple[Persona, torch.Tensor]:
        codes = torch.randint(0, 2048, (FRAMES, CODEBOOKS), generator=generator)
        return bench.filled_persona(lm, context), codes

    ours, others = call(200), [call(context) for context in (10, 2900, 100, 1500, 400, 50, 250)]

    def among(slots: int, slot: int, neighbours: int, graphs: bool) -> torch.Tensor:
        free = [place for place in (0, 1, 5, 33, 63, 64, 100, 127) if place != slot and place < slots]
        calls = dict(zip(free, others[:neighbours], strict=False))
        return play(lm, slots, {slot: ours, **calls}, Sampling(), graphs)[slot]

    for slots in (64, 128):
        alone = among(slots, 0, 0, graphs=False)
        for slot in (0, 63, 64, 127):
            if slot < slots:
                equal = torch.equal(alone, among(slots, slot, 7, graphs=False))
                report.identity(f"{slots} slots, place {slot} among others against alone", equal)
        report.identity(f"{slots} slots, graphs against plain", torch.equal(alone, among(slots, 0, 7, graphs=True)))
    few = among(1, 0, 0, graphs=False)
    report.identity("1 slot against 64, cuBLAS", torch.equal(few, among(64, 0, 0, graphs=False)), hoped=True)
    if fused.is_used(CUDA):
        pack(lm, invariant=True)
        few = among(1, 0, 0, graphs=False)
        for slots in (2, 16, 64, 128):
            equal = torch.equal(few, among(slots, slots - 1, 7, graphs=True))
            report.identity(f"1 slot against {slots}, batch-invariant", equal)


def batch(report: Report) -> None:
    """Whether 80 calls of 2 to 20 s come out alike, samples and tokens, with graphs and without, twice each."""
    model = tiny.load(CUDA, torch.bfloat16)
    codes = torch.randint(2048, (12, CODEBOOKS), generator=torch.Generator().manual_seed(1))
    prompt = Prompt(NamedVoice("v", "v", RecordedVoice(codes)), "", ())
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number in range(CALLS):
            frames = 25 + 225 * number // CALLS
            path = Path(folder) / f"{number}.wav"
            soundfile.write(path, 0.1 * random.standard_normal(frames * 1920), 24_000)
            jobs.append(Job(str(number), path, prompt, number, frames))
        runs = []
        for graphs in (True, False, True, False):
            plan = Plan(16, graphs=graphs)
            outcomes = list(Batch(model, plan, lambda response: response).run(jobs))
            runs.append({one.job.id: one for one in outcomes if isinstance(one, Response)})
    report.identity("batch: all calls answered", all(len(run) == CALLS for run in runs))
    for number, run in enumerate(runs[1:], 2):
        pairs = [(runs[0][name], run[name]) for name in runs[0].keys() & run.keys()]
        tokens = all(np.array_equal(one.tokens, other.tokens) for one, other in pairs)
        samples = all(one.samples.tobytes() == other.samples.tobytes() for one, other in pairs)
        report.identity(f"batch: tokens of run 1 against {number}", tokens)
        report.identity(f"batch: samples of run 1 against {number}", samples)


def codec(report: Report) -> None:
    """Whether the same codes are decoded alike 20 times."""
    _, mimi = bench.random_model(WIDE, CUDA, torch.bfloat16, seed=1)
    codes = torch.randint(2048, (200, CODEBOOKS), generator=torch.Generator().manual_seed(1))
    first = mimi.decode_call(codes)
    report.identity("codec: 20 decodings", all(torch.equal(mimi.decode_call(codes), first) for _ in range(20)))


def waits(report: Report) -> None:
    """Whether a tick, once it is warm, never makes the host wait for the device."""
    lm = tiny.load(CUDA).lm
    engine = Engine(lm, 3, 40, Sampling())
    engine.admit(0, bench.filled_persona(lm, 9), 1, 20)
    user = torch.zeros(3, CODEBOOKS, dtype=torch.int64)
    engine.step(user)
    torch.cuda.set_sync_debug_mode("error")
    try:
        engine.step(user)
        waited = False
    except RuntimeError as error:
        print(error)
        waited = True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    report.identity("a tick that waits for nothing", not waited)


def enough(gib: float) -> bool:
    """Whether so much of the card's memory is free."""
    torch.cuda.empty_cache()
    return memory.free_bytes(CUDA) > gib * 2**30


def speed() -> list[dict[str, Any]]:
    """The 7B's shape by number of slots: plain, as graphs, with batch-invariant products; printed row by row."""
    if not enough(18):
        print("the 7B does not fit; the shape of 0.7 billion parameters in its place")
    config = PERSONAPLEX_7B if enough(18) else bench.SHAPE_700M
    lm, mimi = bench.random_model(config, CUDA, torch.bfloat16, seed=1)
    bandwidth = bench.copy_bandwidth(CUDA)
    print(f"a copy reads and writes {bandwidth / 1e9:.0f} GB/s\n")
    print("| slots | graphs | products | ms a tick | p95 | × real time | GiB | of the bandwidth |\n" + "|---" * 8 + "|")
    rows = []
    for products in ("cublas", "triton") if fused.is_used(CUDA) else ("cublas",):
        if products == "triton":
            pack(lm, invariant=True)
        for slots in (1, 16, 64, 128):
            for graphs in (False, True) if products == "cublas" else (True,):
                work = bench.Work(slots, FRAMES, 400, graphs)
                if not enough(2.5 + memory.cache_bytes(config, slots, 500, 2) / 2**30):
                    print(f"| {slots} | does not fit |", flush=True)
                    continue
                row = {"graphs": graphs, "products": products, **asdict(bench.run(lm, mimi, work, bandwidth))}
                rows.append(row)
                print(table_row(row), flush=True)
    profile(lm)
    return rows


def table_row(row: dict[str, Any]) -> str:
    """A row of the table."""
    cells = (
        row["slots"],
        "yes" if row["graphs"] else "no",
        row["products"],
        f"{row['ms_per_tick']:.1f}",
        f"{row['ms_per_tick_p95']:.1f}",
        f"{row['times_real_time']:.1f}",
        f"{row['peak_memory_bytes'] / 2**30:.1f}",
        f"{row['bandwidth_fraction']:.0%}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def profile(lm: LM) -> None:
    """The kernels of one plain tick: how many, and which take longest."""
    engine = Engine(lm, 1, 500, Sampling())
    engine.admit(0, bench.filled_persona(lm, 400), 1, 20)
    user = torch.zeros(1, CODEBOOKS, dtype=torch.int64)
    engine.step(user)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as trace:
        engine.step(user)
        torch.cuda.synchronize()
    kernels = trace.key_averages()
    print(f"\nkernels of a tick of one slot: {sum(kernel.count for kernel in kernels)}; the longest:")
    for kernel in sorted(kernels, key=lambda one: -one.device_time_total)[:12]:
        print(f"- {kernel.count} × {kernel.key[:90]}: {kernel.device_time_total / 1000:.2f} ms")


def main() -> int:
    """Run everything; 1 if an identity fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="also write the figures here, as JSON")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: this machine has no GPU that CUDA runs on", file=sys.stderr)
        return 3
    report, speeds = Report(), list[dict[str, Any]]()
    info = cuda_info(CUDA)
    document: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": None if info is None else asdict(info),
        "triton": fused.fault(fused.index(CUDA)) or "runs",
    }
    print(json.dumps(document), flush=True)
    identities: list[Callable[[], Any]] = [
        partial(part, report) for part in (waits, parity, batch, codec, independence)
    ]
    parts = [*identities, lambda: speeds.extend(speed())]
    for part in parts:
        begun = time.perf_counter()
        try:
            part()
        except Exception as error:  # the other parts have something to say, too
            report.failed = True
            print(f"- FAILED: {type(error).__name__}: {error}", flush=True)
        torch.cuda.empty_cache()
        print(f"  ({time.perf_counter() - begun:.0f} s)", flush=True)
    if arguments.output:
        figures = document | {"identities": report.found, "speed": speeds}
        arguments.output.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
