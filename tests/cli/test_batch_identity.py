"""An answer depends on its item alone: not on the slots, the order, the shard, a resume, nor on being in a batch."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

# What a manifest says of each call: different lengths, rates, formats, channels, prompts, seeds and parts.
ROWS: list[dict[str, Any]] = [
    {"audio_filepath": "a.wav"},
    {"audio_filepath": "b.flac", "channel": "right", "seed": 5},
    {"audio_filepath": "c.wav", "text_prompt": "You work for a shop. Be brief."},
    {"audio_filepath": "d.ogg", "role": "clinic", "fields": {"name": "Mia"}},
    {"audio_filepath": "e.wav", "id": "e", "voice_prompt": "other.wav"},
    {"audio_filepath": "c.wav", "id": "part", "offset": 0.25, "duration": 0.5},
]
OPTIONS = ("--save-tokens", "--output-subtype", "FLOAT")
MODES = {
    "float32-sampled": ("--dtype", "float32"),
    "float32-greedy": ("--dtype", "float32", "--greedy"),
    "against loops": ("--topp-text", "0.9", "--repetition-penalty", "1.5", "--no-repeat-ngram", "1"),
    "int8-sampled": ("--dtype", "bfloat16", "--quantize", "int8"),
    "bfloat16-sampled": ("--dtype", "bfloat16", "--align", "model"),
}


@pytest.fixture
def corpus(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with the calls, and a role with a field."""
    from personaplex.prompts import library

    stereo = np.stack([desk.noise(0.5, seed=3), desk.noise(0.5, seed=4)], axis=1)
    desk.sound("a.wav", desk.noise(0.2, seed=5)[:4801], 8000, subtype="ULAW")
    desk.sound("b.flac", stereo, 44_100)
    desk.sound("c.wav", desk.noise(0.9, seed=6), subtype="PCM_24")
    desk.sound("d.ogg", desk.noise(0.3, seed=7)[:4800], 16_000)
    desk.sound("e.wav", desk.noise(0.04, seed=8))
    desk.sound("other.wav", desk.noise(0.5, seed=9))
    roles = desk.folder / ".roles"
    roles.mkdir()
    (roles / "clinic.txt").write_text("You work for a clinic and your name is {name}.")
    (roles / "teacher.txt").write_text("You teach.")
    monkeypatch.setattr(library, "_ROLES", roles)
    return desk


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_is_the_same_alone_and_in_any_batch(corpus: Desk, mode: str) -> None:
    options = (*OPTIONS, *MODES[mode])
    assert corpus.batch(corpus.manifest(ROWS), "--slots", "3", *options).code == 0
    made = corpus.tree()
    assert len(made) == 3 * len(ROWS) + 2
    assert len({made[f"{name}.json"]["tokens_sha256"] for name in corpus.rows()}) == len(ROWS)

    for slots, rows in (("1", ROWS[::-1]), ("8", ROWS[3:] + ROWS[:3])):
        assert corpus.batch(corpus.manifest(rows), "--slots", slots, *options, out=slots).code == 0
        assert answers(corpus, slots) == answers(corpus, "out")

    for row in ROWS:
        if "offset" not in row:  # which `offline` doesn't have
            assert_same_offline(corpus, row, options)


def answers(desk: Desk, out: str) -> dict[str, Any]:
    """All that is said of the items, whose order is the manifest's."""
    tree = {name: content for name, content in desk.tree(out).items() if name not in {"results.jsonl", "run.json"}}
    return tree | {"rows": desk.rows(out)}


def assert_same_offline(desk: Desk, row: dict[str, Any], options: tuple[str, ...]) -> None:
    name = row["audio_filepath"].partition(".")[0]
    result = desk.rows()[name]
    given = ["--input-wav", row["audio_filepath"], "--output-wav", f"alone/{name}.wav", "--seed", str(result["seed"])]
    given += ["--voice-prompt", row.get("voice_prompt", "voice.wav"), "--channel", row.get("channel", "mix")]
    if "text_prompt" in row:
        given += ["--text-prompt", row["text_prompt"]]
    if "role" in row:
        given += ["--role", row["role"], "--field", "name=Mia"]
    (desk.folder / "alone").mkdir(exist_ok=True)
    assert desk.run("offline", "--model", "tiny", *given, *options).code == 0

    found, expected = desk.tree("alone"), desk.tree()
    for suffix in (".wav", ".tokens.safetensors"):
        assert found[name + suffix] == expected[name + suffix], name
    for document in (found[f"{name}.json"], expected[f"{name}.json"]):
        assert document.pop("id") == name
        assert document["input"].pop("path").endswith(row["audio_filepath"])
        assert document["output"].pop("path") == f"{name}.wav"
    assert found[f"{name}.json"] == expected[f"{name}.json"]


def test_shards_and_a_resumed_run_end_as_one_run(corpus: Desk) -> None:
    source = corpus.manifest(ROWS)
    options = (*OPTIONS, "--mix", "--format", "srt,frames", "--slots", "2")
    assert corpus.batch(source, *options).code == 0
    whole = corpus.tree()

    counts = []
    for index in (2, 1, 3):
        assert corpus.batch(source, "--shard", f"{index}/3", *options, out="shards").code == 0
        counts.append(len(corpus.rows("shards")))
    assert corpus.tree("shards") == whole
    assert counts[0] < len(ROWS)  # each took its share, one at least, alone
    assert counts == sorted(counts)

    shutil.copytree(corpus.folder / "out", corpus.folder / "resumed")
    for name in ("a.wav", "b.json", "c.srt", "d.tokens.safetensors", "e.mix.wav"):
        (corpus.folder / "resumed" / name).unlink()
    result = corpus.batch(source, "--json", *options, out="resumed")
    assert '"done": 5' in result.out
    assert '"skipped": 1' in result.out
    assert corpus.tree("resumed") == whole

    (corpus.folder / "resumed" / "results.jsonl").unlink()
    assert '"skipped": 6' in corpus.batch(source, "--json", *options, out="resumed").out
    assert corpus.tree("resumed") == whole


def test_a_batch_of_a_directory_is_a_batch_of_its_rows(corpus: Desk) -> None:
    calls = corpus.folder / "calls"
    (calls / "sub").mkdir(parents=True)
    for path, name in (("a.wav", "a.wav"), ("b.flac", "sub/b.flac"), ("c.wav", "sub/c.wav")):
        shutil.copy(corpus.folder / path, calls / name)
    assert corpus.batch(calls).code == 0
    rows = [{"audio_filepath": name} for name in ("a.wav", "sub/b.flac", "sub/c.wav")]
    assert corpus.batch(corpus.manifest(rows, "calls/rows.jsonl"), out="listed").code == 0
    assert answers(corpus, "listed") == answers(corpus, "out")


def test_a_call_after_a_loud_one_in_its_slot(corpus: Desk) -> None:
    corpus.sound("loud.wav", np.sign(np.sin(np.arange(20_000) / 5)))
    corpus.sound("silent.wav", np.zeros(10_000))
    both = [{"audio_filepath": "loud.wav"}, {"audio_filepath": "silent.wav"}]
    assert corpus.batch(corpus.manifest(both), "--slots", "1", *OPTIONS).code == 0
    assert corpus.batch(corpus.manifest(both[1:]), "--slots", "1", *OPTIONS, out="alone").code == 0
    tokens = [load_file(corpus.folder / out / "silent.tokens.safetensors") for out in ("out", "alone")]
    assert np.array_equal(tokens[0]["tokens"], tokens[1]["tokens"])
    assert corpus.tree()["silent.wav"] == corpus.tree("alone")["silent.wav"]
