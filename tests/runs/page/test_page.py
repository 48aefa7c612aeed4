"""The page of a run: what it holds, where its sound lies, and what can't do it harm."""

import base64
import io
import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import soundfile

from personaplex.core.errors import UsageError
from personaplex.runs.measures.measuring import measure_run
from personaplex.runs.page.writing import PageMade, write_page
from tests.runs.conftest import MadeRun, sound

HOSTILE = "</script><script>alert(1)</script>"
TALK = ([(1.0, 2.0)], [(2.4, 4.0)])


class Scripts(HTMLParser):
    """A page's scripts: their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], list[str]]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag == "script"
        if self._open:
            self.found.append((dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1][1].append(data)

    def json(self, name: str) -> Any:
        """What the script of a name holds."""
        (text,) = ("".join(data) for attrs, data in self.found if attrs.get("id") == name)
        return json.loads(text)


def written(run: MadeRun, place: Path, recordings: Path | None = None) -> PageMade:
    return write_page(run.out, place, recordings, lambda done, of: None)


def handed_over(path: Path) -> Any:
    """The last argument of the call that a script of data makes."""
    text = path.read_text(encoding="ascii")
    name, _, rest = text.partition("(")
    assert rest.endswith(");\n")
    value = rest.removesuffix(");\n")
    return json.loads(value if name == "listed" else value.partition(", ")[2])


def listed(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = handed_over(folder / "data/calls.js")
    return rows


def test_a_folder_lists_the_calls_and_keeps_each_apart(run: MadeRun, tmp_path: Path) -> None:
    flags = [{"kind": "no_text", "start": 0.0, "end": 1.08, "detail": "no word"}]
    document = run.add("a/1", *TALK, text="Good morning", output={"align": "reference"})
    run.write("a/1", document | {"flags": flags})
    run.add("b", *TALK)
    run.fail("c")
    made = written(run, tmp_path / "page")
    assert (made.calls, made.failed) == (2, {})
    first, _, third = listed(tmp_path / "page")
    assert (first["id"], first["duration"], first["voice"], first["seed"]) == ("a/1", 10, "agent_f", "7")
    assert first["flags"] == ["no_text"]
    assert first["figures"]["response_rate.agent"] == 1
    assert (third["id"], third["failed"]) == ("c", "no")
    detail = handed_over(tmp_path / "page" / "data" / f"{first['number']}.js")
    caller, agent = detail["lanes"]
    assert agent["words"] == [["Good", 1.92, 2.24], ["morning", 2.32, 2.64]]
    assert (caller["late"], agent["late"]) == (0, 0.08)
    assert detail["units"] == {"caller": [[1.0, 2.0]], "agent": [[2.32, 3.92]]}
    assert {event["kind"] for event in detail["events"]} == {"gap", "response", "dead_air"}
    assert detail["flags"][0] == {"kind": "no_text", "start": -0.08, "end": 1.0, "side": "", "detail": "no word"}
    heard = np.frombuffer(base64.b64decode(agent["peaks"]), np.uint8)
    assert len(heard) == 500
    assert not heard[:120].any()
    assert heard[120:200].max() == 255


def test_a_folder_links_to_the_sound_where_it_lies(run: MadeRun, tmp_path: Path) -> None:
    run.add("a b#1", *TALK)
    place = tmp_path / "deep" / "page"
    written(run, place)
    lanes = handed_over(place / "data" / "0.js")["lanes"]
    assert [os.path.realpath(place / unquote(lane["src"])) for lane in lanes] == [
        os.path.realpath(run.calls / "a b#1.wav"),
        os.path.realpath(run.out / "a b#1.wav"),
    ]
    assert "#" not in lanes[0]["src"]
    assert not (place / "sound").exists()


def test_a_part_or_a_channel_is_put_beside_the_page(run: MadeRun, tmp_path: Path) -> None:
    document = run.add("a", *TALK, seconds=4)
    document["input"] |= {"part": {"offset": 0.5, "duration": 4}}
    run.write("a", document)
    written(run, tmp_path / "page")
    lane = handed_over(tmp_path / "page" / "data" / "0.js")["lanes"][0]
    assert lane["src"] == "sound/0.caller.mp3"
    assert soundfile.info(tmp_path / "page" / lane["src"]).duration == pytest.approx(3.5)  # the file ends there


def test_a_file_holds_all_of_it(run: MadeRun, tmp_path: Path) -> None:
    run.add("a", *TALK)
    run.add("b", *TALK)
    written(run, tmp_path / "page.html")
    page = Scripts((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [row["id"] for row in page.json("calls")] == ["a", "b"]
    assert not any(attrs.get("src") for attrs, _ in page.found)
    agent = page.json("call-1")["lanes"][1]
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(agent["src"].partition(",")[2])))
    assert (len(samples), rate) == (240_000, 24_000)


def test_a_page_reaches_for_nothing_on_a_network(run: MadeRun, tmp_path: Path) -> None:
    run.add("a", *TALK)
    for place in (tmp_path / "page.html", tmp_path / "page"):
        written(run, place)
        page = place if place.is_file() else place / "index.html"
        text = page.read_text(encoding="utf-8")
        assert "default-src 'none'" in text
        assert "http://" not in text
        assert "https://" not in text


def test_names_and_words_that_look_like_html_stay_text(run: MadeRun, tmp_path: Path) -> None:
    hostile = HOSTILE.replace("/", "⁄")
    document = run.add("a", *TALK, text="word", prompt={"voice": HOSTILE, "text": HOSTILE})
    document["segments"][0]["words"][0]["word"] = HOSTILE
    run.write("a", document | {"warnings": [HOSTILE]})
    run.out.rename(run.folder / hostile)
    run.out = run.folder / hostile
    written(run, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Scripts(text)
    assert HOSTILE not in text
    assert page.json("call-0")["lanes"][1]["words"][0][0] == HOSTILE
    assert page.json("calls")[0]["voice"] == HOSTILE


def test_what_can_not_be_shown_is_told_and_the_rest_is_shown(run: MadeRun, tmp_path: Path) -> None:
    for name in ("damaged", "deaf", "mute", "good"):
        run.add(name, *TALK)
    (run.out / "damaged.json").write_text("{", encoding="utf-8")
    (run.calls / "deaf.wav").unlink()
    (run.out / "mute.wav").unlink()
    made = written(run, tmp_path / "page")
    assert list(made.failed) == ["damaged"]
    rows = {row["id"]: row for row in listed(tmp_path / "page")}
    assert "not whole JSON" in rows["damaged"]["failed"]
    deaf = handed_over(tmp_path / "page" / "data" / f"{rows['deaf']['number']}.js")
    assert "the caller's recording is not there" in deaf["unmeasured"]
    assert "the caller's recording is not there" in deaf["lanes"][0]["missing"]
    assert deaf["lanes"][1]["src"]
    mute = handed_over(tmp_path / "page" / "data" / f"{rows['mute']['number']}.js")
    assert mute["lanes"][1]["missing"].endswith("mute.wav: is not there")


def test_measures_that_are_there_are_taken_unless_they_are_of_another_answer(run: MadeRun, tmp_path: Path) -> None:
    run.add("a", *TALK)
    run.add("b", *TALK)
    measure_run(run.out).write(run.out)
    path = run.out / "measures.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["events"] = [event for event in line["events"] if event["kind"] != "gap"]
    lines[1]["pcm_sha256"] = "0"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    written(run, tmp_path / "page")
    gaps = [row["figures"]["gaps_per_minute"] for row in listed(tmp_path / "page")]
    assert gaps == [0, 6]


@pytest.mark.parametrize("there", ["index.html", "notes.txt"])
def test_somebody_elses_folder_or_file_is_not_replaced(run: MadeRun, tmp_path: Path, there: str) -> None:
    run.add("a", *TALK)
    place = tmp_path / "page"
    place.mkdir()
    (place / there).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is there and"):
        written(run, place)
    (tmp_path / "page.html").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is no page of a run, and is not replaced"):
        written(run, tmp_path / "page.html")


def test_a_page_takes_an_older_ones_place(run: MadeRun, tmp_path: Path) -> None:
    run.add("a", *TALK)
    for place in (tmp_path / "page", tmp_path / "page.html"):
        for _ in range(2):
            written(run, place)


def test_a_run_without_answers_has_no_page(run: MadeRun, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no answers"):
        written(run, tmp_path / "page")


def test_sides_of_a_conversation_are_its_lanes(run: MadeRun, tmp_path: Path) -> None:
    sides: dict[str, Any] = {}
    for side, spoken in (("a", TALK[0]), ("b", TALK[1])):
        soundfile.write(run.out / f"t.{side}.wav", sound(spoken, 6), 24_000)
        flags = [{"kind": "no_text", "start": 0.0, "end": 6.0, "detail": "no word"}] if side == "b" else []
        sides[side] = {
            "output": {"path": f"t.{side}.wav", "pcm_sha256": "0"},
            "prompt": {"voice": f"voice_{side}", "text": "You are kind."},
            "sampling": {"seed": 7},
            "flags": flags,
        }
    words = [{"word": "Hi", "start": 1.04, "end": 1.2}]
    document = {"schema": "personaplex.conversation/1", "duration": 6.0, "sides": sides, "flags": []}
    document |= {"output": {"path": "t.wav", "pcm_sha256": "1"}, "segments": [{"speaker": "a", "words": words}]}
    run.write("t", document)
    written(run, tmp_path / "page")
    (row,) = listed(tmp_path / "page")
    assert (row["voice"], row["seed"], row["flags"]) == ("voice_a and voice_b", "7 and 7", ["no_text"])
    detail = handed_over(tmp_path / "page" / "data" / "0.js")
    assert [(lane["name"], lane["words"], lane["late"]) for lane in detail["lanes"]] == [
        ("a", [["Hi", 1.04, 1.2]], 0),
        ("b", [], 0),
    ]
    assert detail["flags"][0]["side"] == "b"
