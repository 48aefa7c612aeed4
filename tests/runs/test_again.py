"""What goldens keep of a run, and the batch that comes of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from personaplex.cli import options as o
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Overrides
from personaplex.runs.goldens.again import Rerun, batch_again, golden_settings

HUB = "nvidia/personaplex-7b-v1"


def run_settings(base: Path, **changes: Any) -> dict[str, Any]:
    """A `run.json` of a batch with a hub's model on a GPU."""
    options = {"model": HUB, "revision": "main", "moshi_weight": None, "mimi_weight": None, "tokenizer": None}
    return {
        "sampling": {"temp_text": 0.5, "greedy": True},
        "align": "model",
        "long_audio": "error",
        "output": {"subtype": "PCM_24", "rate": 16_000, "formats": ["json", "srt"], "tokens": True, "mix": True},
        "model": {"name": HUB, "revision": "c0ffee", "weights_sha256": "w"},
        "engine": {"device": "cuda", "dtype": "bfloat16", "threads": None, "slots": 32},
        "model_options": options | changes,
        "volatile": {"folder": str(base)},
        "seed": 3,
    }


def again(folder: Path, settings: dict[str, Any], **changes: Any) -> Any:
    chosen = {"model": None, "revision": None, "overrides": Overrides(), "device": None, "dtype": None, "slots": None}
    rerun = Rerun(**(chosen | changes), output=None, progress=False)
    return batch_again(folder, folder / "manifest.jsonl", settings, rerun, folder / "out")


def test_a_run_on_a_gpu_with_a_hubs_model(tmp_path: Path) -> None:
    request = again(tmp_path, golden_settings(run_settings(tmp_path), tmp_path))
    assert (request.model.name, request.model.revision) == (HUB, "c0ffee"), "the commit, not the branch"
    assert (request.model.device, request.model.dtype, request.slots) == ("cuda", o.Dtype.bfloat16, 32)
    assert request.sampling == Sampling(temp_text=0.5, greedy=True)
    assert (request.align, request.long_audio) == (o.AlignOption.model, o.LongAudio.error)
    assert (request.outputs.subtype, request.outputs.rate, request.outputs.tokens) == ("PCM_24", 16_000, True)


def test_what_is_asked_for_goes_first(tmp_path: Path) -> None:
    kept = golden_settings(run_settings(tmp_path, mimi_weight="mimi.safetensors"), tmp_path)
    newer = again(tmp_path, kept, revision="beef", device="cpu", dtype=o.Dtype.float32, slots=2)
    assert (newer.model.revision, newer.model.device, newer.model.dtype) == ("beef", "cpu", o.Dtype.float32)
    assert newer.slots == 2
    assert newer.model.overrides == Overrides(mimi=tmp_path / "mimi.safetensors")
    other = again(tmp_path, kept, model="tiny").model
    assert (other.name, other.revision, other.overrides) == ("tiny", None, Overrides())


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_cpu_runs_the_recorded_threads(tmp_path: Path, device: str | None) -> None:
    settings = run_settings(tmp_path)
    settings["engine"] = {"device": "cpu", "dtype": "float32", "threads": 3, "slots": None}
    before = torch.get_num_threads()
    again(tmp_path, golden_settings(settings, tmp_path), device=device)
    found = torch.get_num_threads()
    torch.set_num_threads(before)
    assert found == 3


@pytest.mark.parametrize("name", ["tiny", "models/mine"])
def test_paths_are_relative_to_the_goldens(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    goldens = tmp_path / "kept" / "goldens"
    kept = golden_settings(run_settings(tmp_path, model=name, revision=None, tokenizer="t.model"), goldens)
    options = kept["model_options"]
    packaged = name == "tiny"  # whose name a folder can't take
    assert options["model"] == (name if packaged else f"../../{name}")
    assert options["revision"] is None
    assert options["tokenizer"] == "../../t.model"
    goldens.mkdir(parents=True)
    found = again(goldens, kept).model
    assert found.name == "tiny" if packaged else Path(found.name).resolve() == tmp_path / name
    assert found.overrides.tokenizer == goldens / "../../t.model"
