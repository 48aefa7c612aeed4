"""A batch whose calls, or answers, lie in a store: in memory, and in files behind a URL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from personaplex.api import Answer, Call, Settings, load_model
from personaplex.core.storage import store
from personaplex.runs.planning.outlet import Outlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Desk

NAMES = ("a/1", "a/b #?%20 é", "x:y", "z=[1]*")
OPTIONS = ("--format", "json,srt", "--mix", "--save-tokens")


class Bucket:
    """A folder in a store: what is put and removed there, and what of it should fail."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.system, self.path = fsspec.url_to_fs(url)

    def put(self, folder: Path, name: str) -> None:
        """Copy a folder of this machine there."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.write(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def write(self, name: str, content: bytes) -> None:
        self.system.makedirs(f"{self.path}/{name}".rpartition("/")[0], exist_ok=True)
        self.system.pipe_file(f"{self.path}/{name}", content)

    def tree(self, name: str = "out") -> dict[str, Any]:
        """As `Desk.tree`."""
        root = f"{self.path}/{name}/"
        made: dict[str, Any] = {path.removeprefix(root): self.system.cat_file(path) for path in self.system.find(root)}
        for path, content in made.items():
            if path.endswith(".json") and not path.endswith(".frames.json"):
                made[path] = {key: value for key, value in json.loads(content).items() if key != "volatile"}
        return made


@pytest.fixture(params=["memory", "file"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A folder in memory, and one of files."""
    made = Bucket("memory://bucket" if request.param == "memory" else f"file://{tmp_path}/bucket with 100%:blanks")
    yield made
    if request.param == "memory":
        made.system.rm("/bucket", recursive=True)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAUSES", (0.0, 0.0))


@pytest.fixture
def calls(desk: Desk, bucket: Bucket) -> Bucket:
    """Four calls with odd names, here in `calls` and in the bucket, and what comes of them in `here`."""
    for seed, name in enumerate(NAMES):
        (desk.folder / "calls" / name).parent.mkdir(parents=True, exist_ok=True)
        desk.sound(f"calls/{name}.wav", desk.noise(0.1, seed=seed))
    (desk.folder / "calls" / "notes.txt").write_text("not a call")
    bucket.put(desk.folder / "calls", "calls")
    assert desk.batch("calls", *OPTIONS, out="here").code == 0
    return bucket


def without_source(tree: dict[str, Any]) -> dict[str, Any]:
    """A run's files; of the record not what says where the calls lie."""
    run = {key: value for key, value in tree["run.json"].items() if key != "source"}
    return tree | {"run.json": run}


def test_calls_and_answers_in_a_store_are_those_of_this_machine(desk: Desk, calls: Bucket) -> None:
    result = desk.batch(f"{calls.url}/calls/", *OPTIONS, "--json", out=f"{calls.url}/out/")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["output"] == f"{calls.url}/out/"
    assert without_source(calls.tree()) == without_source(desk.tree("here"))
    assert json.loads(calls.system.cat_file(f"{calls.path}/out/run.json"))["source"] == f"{calls.url}/calls/"
    assert not any(name.endswith(".part") for name in calls.tree())


def test_either_side_may_be_here(desk: Desk, calls: Bucket) -> None:
    assert desk.batch(f"{calls.url}/calls", *OPTIONS, out="there").code == 0
    assert without_source(desk.tree("there")) == without_source(desk.tree("here"))
    assert desk.batch("calls", *OPTIONS, out=f"{calls.url}/out").code == 0
    assert calls.tree() == desk.tree("here")


def test_what_is_done_is_skipped(desk: Desk, calls: Bucket) -> None:
    source, out = f"{calls.url}/calls", f"{calls.url}/out"
    assert desk.batch(source, *OPTIONS, out=out).code == 0
    before = calls.tree()
    calls.system.rm_file(f"{calls.path}/out/{NAMES[1]}.srt")
    calls.system.rm_file(f"{calls.path}/out/results.jsonl")
    plan = json.loads(desk.batch(source, *OPTIONS, "--dry-run", "--json", out=out).out)
    assert (plan["skipped"], plan["to_run"]) == (3, 1)
    again = json.loads(desk.batch(source, *OPTIONS, "--json", out=out).out)
    assert (again["skipped"], again["done"]) == (3, 1)
    assert calls.tree() == before


def test_a_call_that_has_changed_is_run_again(desk: Desk, calls: Bucket) -> None:
    source, out = f"{calls.url}/calls", f"{calls.url}/out"
    assert desk.batch(source, out=out).code == 0
    desk.sound("other.wav", desk.noise(0.2, seed=9))
    calls.write("calls/a/1.wav", (desk.folder / "other.wav").read_bytes())
    again = json.loads(desk.batch(source, "--json", out=out).out)
    assert (again["skipped"], again["done"]) == (3, 1)


def test_other_options_replace_an_answer_whole(desk: Desk, calls: Bucket) -> None:
    source, out = f"{calls.url}/calls", f"{calls.url}/out"
    assert desk.batch(source, *OPTIONS, out=out).code == 0
    assert desk.batch(source, "--seed", "3", out=out).code == 0
    assert desk.batch("calls", "--seed", "3", out="fresh").code == 0
    assert without_source(calls.tree()) == without_source(desk.tree("fresh"))
    assert desk.batch(source, "--seed", "3", "--existing", "error", out=out).code == 2


def test_somebody_elses_object_is_not_replaced(desk: Desk, calls: Bucket) -> None:
    calls.write("out/a/1.wav", b"mine")
    calls.write("out/x:y.srt", b"mine too")
    result = desk.batch(f"{calls.url}/calls", *OPTIONS, out=f"{calls.url}/out")
    assert result.code == 1
    assert f"{calls.url}/out/a/1.wav: is there and was not made for this item" in result.err
    assert calls.tree()["a/1.wav"] == b"mine"
    assert calls.tree()["x:y.srt"] == b"mine too"
    row = json.loads(calls.tree()["results.jsonl"].splitlines()[0])
    assert row["error"]["what"].startswith(f"{calls.url}/out/a/1.wav")


def test_an_answer_that_was_changed_is_not_replaced(desk: Desk, calls: Bucket) -> None:
    assert desk.batch(f"{calls.url}/calls", out=f"{calls.url}/out").code == 0
    calls.write("out/a/1.wav", b"edited")
    result = desk.batch(f"{calls.url}/calls", "--seed", "3", out=f"{calls.url}/out")
    assert result.code == 1
    assert "was changed after it was made" in result.err
    assert calls.tree()["a/1.wav"] == b"edited"


@pytest.mark.parametrize("step", range(8))
def test_killed_between_two_objects(desk: Desk, calls: Bucket, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Whichever object was the last one: running again ends with what an undisturbed run leaves, also over others."""
    source, out = f"{calls.url}/calls", f"{calls.url}/out"
    assert desk.batch(source, *OPTIONS, out=out).code == 0

    def killed_at(name: str, whole: Callable[..., None]) -> Callable[..., None]:
        def act(*arguments: Any) -> None:
            counts["acts"] += 1
            if counts["acts"] > step:
                raise KeyboardInterrupt(name)
            whole(*arguments)

        return act

    counts = {"acts": 0}
    with monkeypatch.context() as patched:
        for name in ("put", "remove"):
            patched.setattr(f"personaplex.runs.planning.outlet.{name}", killed_at(name, getattr(store, name)))
        patched.setattr(Outlet, "send_run", lambda self: None)
        desk.batch(source, *OPTIONS, "--seed", "3", out=out)
    assert counts["acts"] > step
    assert desk.batch(source, *OPTIONS, "--seed", "3", out=out).code == 0
    assert desk.batch("calls", *OPTIONS, "--seed", "3", out="fresh").code == 0
    assert without_source(calls.tree()) == without_source(desk.tree("fresh"))


def test_rows_of_a_manifest_name_objects(desk: Desk, calls: Bucket) -> None:
    rows: list[dict[str, Any]] = [
        {"audio_filepath": "../calls/a/1.wav", "voice_prompt": "v/other.wav", "text_prompt_file": "role.txt"},
        {"audio_filepath": f"{calls.url}/calls/x:y.wav", "id": "second"},
        {"audio_filepath": str(desk.folder / "calls/z=[1]*.wav"), "id": "third"},
        {"audio_filepath": "gone.wav"},
    ]
    desk.sound("other.wav", desk.noise(0.7, seed=5))
    calls.write("lists/v/other.wav", (desk.folder / "other.wav").read_bytes())
    calls.write("lists/role.txt", b"You are a pilot.")
    calls.write("lists/all.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    result = desk.batch(f"{calls.url}/lists/all.jsonl", out=f"{calls.url}/out")
    assert result.code == 1
    assert f"{calls.url}/lists/gone.wav: is not there" in result.err
    made = {row["id"]: row for row in map(json.loads, calls.tree()["results.jsonl"].splitlines())}
    first, *done = [row for row in made.values() if row["status"] == "done"]
    assert (first["voice"], first["audio_filepath"]) == ("other", "../calls/a/1.wav")
    assert [row["id"] for row in done] == ["second", "third"]
    document = calls.tree()[first["transcript"]]
    assert (document["prompt"]["text"], document["input"]["path"]) == ("You are a pilot.", "../calls/a/1.wav")
    again = json.loads(desk.batch(f"{calls.url}/lists/all.jsonl", "--json", out=f"{calls.url}/out").out)
    assert (again["skipped"], again["failed"]) == (3, 1)


def test_shards_leave_one_file_of_results(desk: Desk, calls: Bucket) -> None:
    for shard in ("2/3", "1/3", "3/3"):
        assert desk.batch("calls", *OPTIONS, "--shard", shard, out=f"{calls.url}/out").code == 0
    made = calls.tree()
    assert made["results.jsonl"] == desk.tree("here")["results.jsonl"]
    assert desk.batch("calls", *OPTIONS, out=f"{calls.url}/out").code == 0
    assert calls.tree() == desk.tree("here")


def test_outputs_are_no_inputs(desk: Desk, calls: Bucket) -> None:
    source = f"{calls.url}/calls"
    same = desk.batch(source, out=f"{source}/")
    assert (same.code, "the outputs would lie among the inputs" in same.err) == (2, True)
    assert desk.batch(source, out=f"{source}/out").code == 0
    again = json.loads(desk.batch(source, "--json", out=f"{source}/out").out)
    assert again["skipped"] == 4
    elsewhere = desk.batch(source, "--json", "--dry-run", out="elsewhere")
    assert json.loads(elsewhere.out)["passed_over"]["runs"] == ["out"]
    replaced = desk.batch(source, "--glob", "*.wav", out=f"{calls.url}/calls")
    assert (replaced.code, "an output would replace" in replaced.err) == (2, True)


def test_a_failed_upload_fails_its_call_alone(desk: Desk, calls: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    put = type(calls.system).put_file
    tries: list[str] = []

    def put_file(self: Any, here: str, there: str, **more: Any) -> None:
        if ".mix." not in there and "/a/" in there and ".wav" in str(here):
            tries.append(there)
            raise ConnectionResetError("the connection broke")
        put(self, here, there, **more)

    with monkeypatch.context() as patched:
        patched.setattr(type(calls.system), "put_file", put_file)
        result = desk.batch("calls", *OPTIONS, out=f"{calls.url}/out")
    assert result.code == 1
    assert "a/1.wav: ConnectionResetError (the connection broke)" in result.err
    assert len(tries) == 6
    rows = {row["id"]: row for row in map(json.loads, calls.tree()["results.jsonl"].splitlines())}
    assert [row["status"] for row in rows.values()] == ["failed", "failed", "done", "done"]
    assert not any(name.startswith("a/") and name.endswith(".json") for name in calls.tree())
    assert desk.batch("calls", *OPTIONS, out=f"{calls.url}/out").code == 0
    assert calls.tree() == desk.tree("here")


def test_a_store_that_nothing_can_be_written_to(desk: Desk, calls: Bucket) -> None:
    result = desk.batch("calls", out="https://user:secret@example.org/out?key=hidden")
    assert result.code == 3
    assert "example.org/out: https:// can only be read" in result.err
    assert "secret" not in result.err
    assert "hidden" not in result.err
    unknown = desk.batch("calls", out="carrier-pigeon://loft/out")
    assert (unknown.code, "is no kind of store that fsspec knows" in unknown.err) == (3, True)


def test_an_empty_address(desk: Desk, calls: Bucket) -> None:
    result = desk.batch(f"{calls.url}/nothing", out="out")
    assert (result.code, result.errors[0]) == (2, f"error: {calls.url}/nothing: holds nothing")
    missing = desk.batch(f"{calls.url}/nothing.jsonl", out="out")
    assert missing.code == 3
    assert f"{calls.url}/nothing.jsonl: is not there" in missing.err


def test_programs_read_stores_too(desk: Desk, calls: Bucket) -> None:
    settings = Settings(voice_prompt="voice.wav")
    model = load_model("tiny", device="cpu")
    here, there = (
        {one.id: one.transcript["tokens_sha256"] for one in model.answers(source, settings) if isinstance(one, Answer)}
        for source in ("calls", f"{calls.url}/calls")
    )
    assert sorted(there) == sorted(NAMES)
    assert there == here
    alone = model.answer(Call(f"{calls.url}/calls/{NAMES[1]}.wav"), settings)
    assert alone.transcript["input"]["path"] == f"{calls.url}/calls/{NAMES[1]}.wav"
