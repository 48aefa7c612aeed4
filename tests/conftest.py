"""The parity cases, and the model directories they run on.

`tests/data/parity` records what the public reference implementation did on small seeded models: on a CPU, in float32,
greedy. A weight is a function of the case's seed, its name and its shape, so no checkpoint is stored.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from safetensors.numpy import save_file

# For tensors this small, threads cost more in waiting for each other than they save; torch reads this when imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

DATA = Path(__file__).parent / "data"
CASES = ("short", "long", "no_text", "wide")
STORED_STEPS = 16  # depth steps in every case

Weights: TypeAlias = dict[str, npt.NDArray[np.float32]]
BuildModel: TypeAlias = Callable[..., Path]

# The tensors a checkpoint holds once for every depth step.
_STEP = re.compile(r"(?:depformer_in|linears|depformer_emb|depformer\.layers\.\d+\.gating)\.(\d+)\.")


@dataclass(frozen=True)
class ParityCase:
    """One case's folder, with `user.wav`, `voice.wav`, `voice.pt` and `expected.safetensors`, and its `case.json`."""

    path: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `case.json` says: shapes, seed, prompt, number of frames."""
        facts: dict[str, Any] = json.loads((self.path / "case.json").read_text())
        return facts

    @cached_property
    def weights(self) -> dict[str, Weights]:
        """All tensors of the case's checkpoints, `lm` and `mimi`, by name."""
        found: dict[str, Weights] = {"lm": {}, "mimi": {}}
        for name, shape in self.facts["tensors"].items():
            model, _, own = name.partition(".")
            found[model][own] = _weight(self.facts["seed"], name, shape)
        return found


def _weight(seed: int, name: str, shape: list[int]) -> npt.NDArray[np.float32]:
    """`centre + spread * u`, u uniform in [-1, 1) from a Philox generator keyed by the seed and the name."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    words = np.random.Philox(key=np.frombuffer(digest, np.uint64, count=2)).random_raw(math.prod(shape))
    uniform = ((words >> np.uint64(40)).astype(np.float64) / 2**23 - 1).astype(np.float32)
    centre, spread = _distribution(name, shape)
    return (centre + spread * uniform).astype(np.float32).reshape(shape)


def _distribution(name: str, shape: list[int]) -> tuple[float, float]:
    """Centre and half width of a tensor's values, from what its name says it is."""
    kinds = {
        "_initialized": (1.0, 0.0),
        "cluster_usage": (1.0, 0.5),
        "embedding_sum": (0.0, 1.0),
        "scale": (0.5, 0.25),
        "alpha": (1.0, 0.1),
    }
    kind = name.rpartition(".")[2]
    if kind in kinds:
        return kinds[kind]
    if kind == "weight" and ".norm" in name:
        return 1.0, 0.1
    if len(shape) == 1:
        return 0.0, 0.02
    if "emb" in name:
        return 0.0, 1.0
    inputs = shape[0] if "convtr" in name else math.prod(shape[1:])
    return 0.0, math.sqrt(3 / inputs)


def _leading_steps(weights: Weights, steps: int) -> Weights:
    """A language model's tensors without the depth steps from `steps` on, as a checkpoint with fewer has them."""
    kept = {}
    for name, values in weights.items():
        step = _STEP.match(name)
        if step and int(step[1]) >= steps - name.startswith("depformer_emb"):
            continue
        packed = name.startswith("depformer.layers.") and ".self_attn." in name
        kept[name] = values[: len(values) * steps // STORED_STEPS].copy() if packed else values
    return kept


def _write_lm(weights: Weights, folder: Path, shards: int) -> str:
    """The checkpoint file or its shards; returns the name that config.json gives it."""
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return "model.safetensors"
    parts = [sorted(weights)[n::shards] for n in range(shards)]
    files = [f"model-{n + 1:05d}-of-{shards:05d}.safetensors" for n in range(shards)]
    for names, file in zip(parts, files, strict=True):
        save_file({name: weights[name] for name in names}, folder / file)
    place = {name: file for names, file in zip(parts, files, strict=True) for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))
    return "model.safetensors.index.json"


def write_model(case: ParityCase, folder: Path, steps: int, shards: int) -> None:
    """Make `folder` the case's model directory, with `steps` depth steps in a checkpoint of `shards` files."""
    facts = case.facts
    lm = _write_lm(_leading_steps(case.weights["lm"], steps), folder, shards)
    save_file(case.weights["mimi"], folder / "mimi.safetensors")
    shutil.copyfile(DATA / "tokenizer.model", folder / "tokenizer.model")
    config = {
        "model_type": "personaplex",
        "lm": facts["lm"] | {"depth": facts["lm"]["depth"] | {"codebooks": steps}},
        "mimi": facts["mimi"],
        "silence_codes": [948, 243, 1178, 546, 1736, 1030, 1978, 2008],
        "sine_codes": [430, 1268, 381, 1611, 1095, 1495, 56, 472],
        "files": {"lm": lm, "mimi": "mimi.safetensors", "tokenizer": "tokenizer.model"},
    }
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="session")
def parity_cases() -> dict[str, ParityCase]:
    """Every recorded case, by name."""
    return {name: ParityCase(DATA / "parity" / name) for name in CASES}


@pytest.fixture(scope="session")
def build_model(tmp_path_factory: pytest.TempPathFactory, parity_cases: dict[str, ParityCase]) -> BuildModel:
    """`build_model(case, steps=16, shards=1)`: a model directory, made once and shared, so not to be changed."""
    built: dict[tuple[str, int, int], Path] = {}

    def build(case: str, steps: int = STORED_STEPS, shards: int = 1) -> Path:
        key = (case, steps, shards)
        if key not in built:
            folder = tmp_path_factory.mktemp(f"{case}-{steps}-{shards}")
            write_model(parity_cases[case], folder, steps, shards)
            built[key] = folder
        return built[key]

    return build


settings.register_profile("personaplex", deadline=None)  # nothing is judged by time: machines are busy
settings.load_profile("personaplex")
