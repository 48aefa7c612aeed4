#!/usr/bin/env python3
"""Everything a GPU must show, in a few minutes: python benchmarks/gpu.py [--output FILE.json]

Needs the package with its dev extra and a GPU that CUDA runs on; downloads nothing. It prints a report in Markdown:
the recorded parity cases in float32, a call's independence of its neighbours and of the number of slots in bfloat16,
ticks as CUDA graphs against plain ones, and the speed of the 7B shape by number of slots.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from personaplex.core.config import CODEBOOKS, PERSONAPLEX_7B
from personaplex.core.engine.session import EmbeddedVoice, Persona, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.lm.model import LM
from personaplex.core.machine import bench
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import load, locate

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from conftest import CASES, ParityCase, write_model  # noqa: E402 (found in the folder above)

CUDA = torch.device("cuda")
CONTEXT = 500
FRAMES = 40
INDEPENDENCE_FRAMES = 40


def parity() -> dict[str, bool]:
    """Whether each recorded case gives the reference's tokens, greedy, in float32."""
    found = {}
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
        frames = _run(model.lm, 1, {0: (persona, codes)}, Sampling(greedy=True), graphs=False)[0]
        found[name] = torch.equal(frames, expected["tokens"][:, :9].long())
    return found


def _run(
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


def independence(lm: LM) -> dict[str, bool]:
    """Whether a call's tokens stay the same among other neighbours, in other slots, numbers of slots and as graphs."""
    generator = torch.Generator().manual_seed(0)

    def call(context: int) -> tuple[Persona, torch.Tensor]:
        codes = torch.randint(0, 2048, (INDEPENDENCE_FRAMES, CODEBOOKS), generator=generator)
        return bench.filled_persona(lm, context), codes

    ours, others = call(200), [call(context) for context in (10, 100, 300, 400, 500, 50, 250)]
    sampling = Sampling()

    def among(slots: int, slot: int, neighbours: int, graphs: bool) -> torch.Tensor:
        free = [place for place in range(slots) if place != slot]
        calls = dict(zip(free, others[:neighbours], strict=False))
        return _run(lm, slots, {slot: ours, **calls}, sampling, graphs)[slot]

    alone = among(8, 0, 0, graphs=False)
    return {
        "other neighbours, 8 slots": torch.equal(alone, among(8, 0, 7, graphs=False)),
        "another slot of 8": torch.equal(alone, among(8, 5, 7, graphs=False)),
        "CUDA graphs against plain": torch.equal(alone, among(8, 0, 7, graphs=True)),
        "1 slot against 8": torch.equal(alone, among(1, 0, 0, graphs=False)),
        "16 slots against 8": torch.equal(alone, among(16, 0, 7, graphs=False)),
    }


def speed() -> list[dict[str, Any]]:
    """The 7B shape with plain ticks and with graphs, by number of slots."""
    lm, mimi = bench.random_model(PERSONAPLEX_7B, CUDA, torch.bfloat16, seed=1)
    bandwidth = bench.copy_bandwidth(CUDA)
    rows = []
    for slots in (1, 16, 64, 128):
        for graphs in (False, True):
            row = bench.run(lm, mimi, bench.Work(slots, FRAMES, CONTEXT, graphs), bandwidth)
            rows.append({"graphs": graphs, **asdict(row)})
    return rows


def report(document: dict[str, Any]) -> str:
    """The document as Markdown."""
    lines = [f"{document['device']}, torch {document['torch']}", ""]
    lines += [f"- parity {name}: {'equal' if equal else 'DIFFERENT'}" for name, equal in document["parity"].items()]
    lines += [f"- {name}: {'equal' if equal else 'different'}" for name, equal in document["independence"].items()]
    lines += [
        "",
        "| slots | graphs | ms a tick | p95 | × real time | GiB | of the bandwidth |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["speed"]:
        cells = (
            row["slots"],
            "yes" if row["graphs"] else "no",
            f"{row['ms_per_tick']:.1f}",
            f"{row['ms_per_tick_p95']:.1f}",
            f"{row['times_real_time']:.1f}",
            f"{row['peak_memory_bytes'] / 2**30:.1f}",
            f"{row['bandwidth_fraction']:.0%}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Run everything; 1 if a parity case or a call among other neighbours differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="also write the figures here, as JSON")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: this machine has no GPU that CUDA runs on", file=sys.stderr)
        return 3
    document: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "parity": parity()}
    small, _ = bench.random_model(bench.SHAPE_700M, CUDA, torch.bfloat16, seed=1)
    document["independence"] = independence(small)
    document["speed"] = speed()
    print(report(document))
    if arguments.output:
        arguments.output.write_text(json.dumps(document, indent=2))
    neighbours = [equal for name, equal in document["independence"].items() if "slots against" not in name]
    return 0 if all(document["parity"].values()) and all(neighbours) else 1


if __name__ == "__main__":
    sys.exit(main())
