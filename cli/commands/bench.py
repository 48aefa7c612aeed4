"""`personaplex bench`: how fast this machine runs a model, by number of slots."""

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from personaplex.cli import options as o
from personaplex.cli.console import LogLevel, configure, notice, result
from personaplex.core.errors import UsageError
from personaplex.runs.choices import Dtype, Quantize

if TYPE_CHECKING:
    from personaplex.core.machine.bench import BenchRow

EXAMPLE = "Example: personaplex bench --shape tiny --slots 1,8,16"

SEED = 1


class Shape(StrEnum):
    """Shapes of models that are made of random weights."""

    tiny = "tiny"
    large = "700m"
    full = "7b"


def bench(
    shape: Annotated[Shape, o.option("--shape", panel=o.MODEL, help="Shapes to run with random weights.")] = Shape.tiny,
    model: Annotated[str | None, o.option("--model", panel=o.MODEL, help="A model to run in place of a shape.")] = None,
    slots: Annotated[str, o.option("--slots", panel=o.RUN, help="Numbers of slots, comma-separated.")] = "1,8,16",
    frames: Annotated[int, o.option("--frames", panel=o.RUN, min=1, help="Ticks to time.")] = 50,
    context_used: Annotated[
        int, o.option("--context-used", panel=o.RUN, min=0, help="Positions that each call has behind it.")
    ] = 500,
    device: o.Device = "auto",
    dtype: o.DtypeName = Dtype.auto,
    quantize: o.QuantizeOption = Quantize.none,
    cuda_graphs: o.CudaGraphs = o.Graphs.auto,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    log_level: o.Level = LogLevel.warning,
) -> None:
    """Measure milliseconds a tick, times real time, memory and nearness to the memory's bandwidth.

    A tick makes one frame of 80 ms for every slot. The codec's time is measured apart and added.
    """
    configure(log_level, quiet)
    from personaplex.core.machine import bench as core
    from personaplex.core.nn.products import ways

    counts = _counts(slots)
    lm, mimi = _model(shape, model, device, dtype, quantize)
    bandwidth = core.copy_bandwidth(lm.device)
    rows = []
    for count in counts:
        notice(f"{count} slots …")
        work = core.Work(count, frames, context_used, cuda_graphs is o.Graphs.auto)
        rows.append(core.run(lm, mimi, work, bandwidth))
    if as_json:
        document = {
            "shape": model or shape.value,
            "device": lm.device.type,
            "dtype": str(lm.dtype).removeprefix("torch."),
            "quantize": "int8" if lm.temporal.is_int8 else None,
            "products": ways(lm),
            "frames": frames,
            "context_used": context_used,
            "copy_bytes_per_second": round(bandwidth),
            "rows": [asdict(row) for row in rows],
        }
        result(json.dumps(document, indent=2))
        return
    for line in _table(rows):
        result(line)


def _counts(text: str) -> list[int]:
    counts = [part.strip() for part in text.split(",")]
    if not all(count.isascii() and count.isdigit() and int(count) > 0 for count in counts):
        raise UsageError(f'--slots "{text}" makes no sense', "give numbers such as 1,8,16")
    return [int(count) for count in counts]


def _model(shape: Shape, model: str | None, device: str, dtype: Dtype, quantize: Quantize) -> Any:
    import torch

    from personaplex.core.config import PERSONAPLEX_7B
    from personaplex.core.machine.bench import SHAPE_700M, random_model
    from personaplex.core.nn.products import pack
    from personaplex.core.weights.model import Overrides
    from personaplex.runs.models.located import ModelOptions, locate_model, pick_device
    from personaplex.samples import tiny

    if model is not None:
        options = ModelOptions(model, None, Overrides(), device, dtype, cpu_offload=False, quantize=quantize)
        loaded = locate_model(options).load()
        return loaded.lm, loaded.mimi
    config = {Shape.tiny: tiny.CONFIG, Shape.large: SHAPE_700M, Shape.full: PERSONAPLEX_7B}[shape]
    chosen = torch.bfloat16 if dtype is Dtype.auto else getattr(torch, dtype)
    lm, mimi = random_model(config, pick_device(device), chosen, SEED, quantize is Quantize.int8)
    pack(lm)
    return lm, mimi


def _table(rows: "list[BenchRow]") -> list[str]:
    lines = ["slots  ms/tick     p95  × real time  GiB peak  bandwidth  > 80 ms  parts of a tick, ms"]
    for row in rows:
        parts = ", ".join(f"{name} {spent:.1f}" for name, spent in row.parts.items())
        gib = row.peak_memory_bytes / 2**30
        lines.append(
            f"{row.slots:5}  {row.ms_per_tick:7.1f}  {row.ms_per_tick_p95:6.1f}  {row.times_real_time:11.2f}"
            f"  {gib:8.2f}  {row.bandwidth_fraction:9.0%}  {row.ticks_over_budget:7.0%}  {parts}"
        )
    return lines
