"""A folder of Full-Duplex-Bench as a source: which files are calls, what they are called, what is carried through."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from personaplex.core.corpus.bench import KEY
from personaplex.core.corpus.sources import Product, expand, read_source

if TYPE_CHECKING:
    from pathlib import Path

    from personaplex.core.corpus.items import Source


def put(folder: Path, **files: Any) -> None:
    """Files of a sample, by their names with `_` for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        path = folder / f"{stem}.{suffix}"
        if suffix == "wav":
            soundfile.write(path, np.zeros(800), 16_000)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Four samples: three of version 1.0, one of 1.5; in one of them another model's answer lies."""
    folder = tmp_path / "bench"
    put(folder / "candor_turn_taking" / "10", input_wav=1, turn_taking_json=[{"timestamp": [1, 2]}])
    put(
        folder / "icc_backchannel" / "3", input_wav=1, transcription_json={"text": "Café"}, output_wav=1, output_json={}
    )
    put(
        folder / "synthetic_user_interruption" / "1",
        input_wav=1,
        context_wav=1,
        interrupt_wav=1,
        interrupt_json=[{"timestamp": [1, 2]}],
        rating_json={"rating": 5},
    )
    put(folder / "background_speech" / "1", input_wav=1, clean_input_wav=1, metadata_json={}, clean_input_json={"t": 1})
    return folder


def source(folder: Path, pattern: str | None = None) -> Source:
    return read_source(str(folder), pattern, None)


def carried(found: Source) -> dict[str, Any]:
    return {item.id: item.row.passed_through[KEY] for item in found.items}


def test_a_sample_is_called_after_its_folder(bench: Path) -> None:
    found = source(bench)
    assert {item.id: item.source for item in found.items} == {
        "background_speech/1": "background_speech/1/input.wav",
        "background_speech/1.clean": "background_speech/1/clean_input.wav",
        "candor_turn_taking/10": "candor_turn_taking/10/input.wav",
        "icc_backchannel/3": "icc_backchannel/3/input.wav",
        "synthetic_user_interruption/1": "synthetic_user_interruption/1/input.wav",
    }
    assert found.refused == []
    assert found.passed_over.files[".wav"] == 3, "the answer of another model, and two parts of an input"


def test_annotations_are_carried_through_and_results_are_not(bench: Path) -> None:
    assert carried(source(bench)) == {
        "background_speech/1": {
            "folder": "background_speech/1",
            "input": "input.wav",
            "files": {"clean_input.json": {"t": 1}, "metadata.json": {}},
        },
        "background_speech/1.clean": {"folder": "background_speech/1", "input": "clean_input.wav", "files": {}},
        "candor_turn_taking/10": {
            "folder": "candor_turn_taking/10",
            "input": "input.wav",
            "files": {"turn_taking.json": [{"timestamp": [1, 2]}]},
        },
        "icc_backchannel/3": {
            "folder": "icc_backchannel/3",
            "input": "input.wav",
            "files": {"transcription.json": {"text": "Café"}},
        },
        "synthetic_user_interruption/1": {
            "folder": "synthetic_user_interruption/1",
            "input": "input.wav",
            "files": {"interrupt.json": [{"timestamp": [1, 2]}]},
        },
    }


def test_one_task_and_one_sample(bench: Path) -> None:
    assert [item.id for item in source(bench / "icc_backchannel").items] == ["3"]
    (item,) = source(bench / "icc_backchannel" / "3").items
    assert (item.id, item.row.passed_through[KEY]["folder"]) == ("3", "3")


def test_products_keep_the_sample(bench: Path) -> None:
    items = expand(source(bench / "icc_backchannel").items, Product(voices=("anna.wav",), seeds=(1, 2)))
    assert [item.id for item in items] == ["3.anna.seed1", "3.anna.seed2"]
    assert {item.row.passed_through[KEY]["folder"] for item in items} == {"3"}


def test_a_broken_annotation_refuses_its_sample_alone(bench: Path) -> None:
    (bench / "candor_turn_taking" / "10" / "turn_taking.json").write_text("[{")
    found = source(bench)
    assert len(found.items) == 4
    (refused,) = found.refused
    assert refused.id == "candor_turn_taking/10"
    assert "turn_taking.json: not JSON" in refused.error.what


def test_a_recording_outside_of_samples_makes_it_an_ordinary_folder(bench: Path) -> None:
    put(bench, more_wav=1)
    found = source(bench)
    assert {"more", "candor_turn_taking/10/input", "icc_backchannel/3/output"} <= {item.id for item in found.items}
    assert all(KEY not in item.row.passed_through for item in found.items)


def test_files_that_are_only_called_so_are_ordinary(tmp_path: Path) -> None:
    put(tmp_path / "a", input_wav=1, notes_json={})
    assert [item.id for item in source(tmp_path).items] == ["a/input"]


def test_a_pattern_chooses_files_as_ever(bench: Path) -> None:
    found = source(bench, "input.wav")
    assert "candor_turn_taking/10/input" in {item.id for item in found.items}
