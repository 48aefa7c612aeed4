"""What a run records of itself, what goldens keep of it, and the batch that comes of it again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from personaplex.core.corpus.results import RUN, SCHEMA
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.model import Overrides
from personaplex.runs.choices import Alignment, Dtype, LongAudio
from personaplex.runs.goldens.again import Rerun, batch_again
from personaplex.runs.goldens.recording import golden_document, golden_settings
from personaplex.runs.planning.request import BatchRequest
from personaplex.runs.settings import read_record, write_record

HUB = "nvidia/personaplex-7b-v1"


def run_settings(base: Path, **changes: Any) -> dict[str, Any]:
    """A `run.json` of a batch with a hub's model on a GPU; `changes` are of the options that find the model."""
    options = {"model": HUB, "revision": "main", "moshi_weight": None, "mimi_weight": None, "tokenizer": None}
    return {
        "schema": SCHEMA,
        "source": "calls.jsonl",
        "glob": None,
        "product": {"voices": [], "roles": [], "seeds": []},
        "voice_prompt": None,
        "voice_prompt_dir": None,
        "text_prompt": "",
        "channel": "mix",
        "seed": 3,
        "sampling": {"temp_text": 0.5, "greedy": True},
        "align": "model",
        "long_audio": "error",
        "output": {"subtype": "PCM_24", "rate": 16_000, "formats": ["json", "srt"], "tokens": True, "mix": True},
        "model": {"name": HUB, "revision": "c0ffee", "weights_sha256": "w", "tokenizer_sha256": "t"},
        "model_options": options | changes,
        "engine": {
            "device": "cuda",
            "device_kind": "H200",
            "dtype": "bfloat16",
            "threads": None,
            "slots": 32,
            "pace": "batch",
            "versions": {},
        },
        "passed_over": {"files": {}, "links": [], "runs": [], "answers": []},
        "volatile": {
            "started": "2026-12-01T10:00:00",
            "command": [],
            "folder": str(base),
            "shard": [1, 1],
            "devices": [],
        },
    }


def recorded(folder: Path, settings: dict[str, Any], goldens: Path) -> dict[str, Any]:
    """The `goldens.json` that comes of a `run.json`."""
    (folder / RUN).write_text(json.dumps(settings))
    document = golden_document(golden_settings(read_record(folder), goldens))
    return dict(json.loads(json.dumps(document)))


def again(folder: Path, settings: dict[str, Any], **changes: Any) -> BatchRequest:
    chosen = {
        "model": None,
        "revision": None,
        "overrides": Overrides(),
        "device": None,
        "dtype": None,
        "quantize": None,
        "slots": None,
    }
    rerun = Rerun(**(chosen | changes), output=None, command=())
    return batch_again(folder, folder / "manifest.jsonl", settings, rerun, folder / "out")


def test_a_record_is_written_as_it_is_read(tmp_path: Path) -> None:
    settings = run_settings(tmp_path)
    settings["sampling"] = asdict(Sampling(temp_text=0.5, greedy=True))
    (tmp_path / RUN).write_text(json.dumps(settings))
    record = read_record(tmp_path)
    write_record(tmp_path, record)
    assert list(json.loads((tmp_path / RUN).read_text()).items()) == list(settings.items())
    assert read_record(tmp_path) == record


def test_what_another_version_says_of_an_engine_is_kept(tmp_path: Path) -> None:
    settings = run_settings(tmp_path)
    settings["engine"] = {"colour": "blue"} | {name: settings["engine"][name] for name in ("device", "dtype")}
    settings["engine"] |= {"threads": None, "slots": 32, "maker": {"name": "someone"}}
    kept = recorded(tmp_path, settings, tmp_path)
    assert list(kept["engine"].items()) == list(settings["engine"].items())
    assert again(tmp_path, kept).slots == 32


def test_a_run_on_a_gpu_with_a_hubs_model(tmp_path: Path) -> None:
    request = again(tmp_path, recorded(tmp_path, run_settings(tmp_path), tmp_path))
    assert (request.model.name, request.model.revision) == (HUB, "c0ffee"), "the commit, not the branch"
    assert (request.model.device, request.model.dtype, request.slots) == ("cuda", Dtype.bfloat16, 32)
    assert request.sampling == Sampling(temp_text=0.5, greedy=True)
    assert (request.align, request.long_audio) == (Alignment.model, LongAudio.error)
    assert (request.outputs.subtype, request.outputs.rate, request.outputs.tokens) == ("PCM_24", 16_000, True)


def test_what_is_asked_for_goes_first(tmp_path: Path) -> None:
    kept = recorded(tmp_path, run_settings(tmp_path, mimi_weight="mimi.safetensors"), tmp_path)
    newer = again(tmp_path, kept, revision="beef", device="cpu", dtype=Dtype.float32, slots=2)
    assert (newer.model.revision, newer.model.device, newer.model.dtype) == ("beef", "cpu", Dtype.float32)
    assert newer.slots == 2
    assert newer.model.overrides == Overrides(mimi=tmp_path / "mimi.safetensors")
    other = again(tmp_path, kept, model="tiny").model
    assert (other.name, other.revision, other.overrides) == ("tiny", None, Overrides())


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_cpu_runs_the_recorded_threads(tmp_path: Path, device: str | None) -> None:
    settings = run_settings(tmp_path)
    settings["engine"] |= {"device": "cpu", "dtype": "float32", "threads": 3, "slots": None}
    before = torch.get_num_threads()
    again(tmp_path, recorded(tmp_path, settings, tmp_path), device=device)
    found = torch.get_num_threads()
    torch.set_num_threads(before)
    assert found == 3


@pytest.mark.parametrize("name", ["tiny", "models/mine"])
def test_paths_are_relative_to_the_goldens(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    goldens = tmp_path / "kept" / "goldens"
    kept = recorded(tmp_path, run_settings(tmp_path, model=name, revision=None, tokenizer="t.model"), goldens)
    options = kept["model_options"]
    packaged = name == "tiny"  # whose name a folder can't take
    assert options["model"] == (name if packaged else f"../../{name}")
    assert options["revision"] is None
    assert options["tokenizer"] == "../../t.model"
    goldens.mkdir(parents=True)
    found = again(goldens, kept).model
    assert found.name == "tiny" if packaged else Path(found.name).resolve() == tmp_path / name
    assert found.overrides.tokenizer == goldens / "../../t.model"
