import base64
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from personaplex.compare.reports.page import write_page
from personaplex.compare.verdicts import (
    Comparison,
    Expectation,
    FirstDifference,
    IdentityDifference,
    ItemComparison,
    Level,
    Outcome,
    Recorded,
    Rung,
    Status,
    Tolerances,
    Verdict,
)

HOSTILE = '</script><img src=x onerror="alert(1)"> \' & {{ 7 * 7 }}'
VOID = {"meta", "link", "br", "img", "input", "hr"}
DIFFERENCE = FirstDifference(25, 2.0, "codebook 0", 1023, None, "one two", "one three")


class Page(HTMLParser):
    """A page's elements: tag, attributes and all text within; every one is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element: tuple[str, dict[str, str], list[str]] = (tag, {name: value or "" for name, value in attrs}, [])
        assert len(element[1]) == len(attrs), f"an attribute twice in <{tag}>"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append((tag, element[2]))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, text in self._open:
            text.append(data)

    def all(self, tag: str, name: str = "") -> list[dict[str, str]]:
        """The attributes of each `tag` of a class, and as `text` what it says."""
        return [
            {**attributes, "text": " ".join("".join(text).split())}
            for found, attributes, text in self.elements
            if found == tag and (not name or name in attributes.get("class", "").split())
        ]


def sound(path: Path, seconds: float, rate: int = 24_000, level: float = 0.5) -> Path:
    samples = level * np.sin(np.arange(round(seconds * rate)) * 2 * np.pi * 220 / rate)
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return path


def document(words: Iterable[tuple[str, float, float]]) -> Mapping[str, Any]:
    return {"segments": [{"words": [{"word": word, "start": start, "end": end} for word, start, end in words]}]}


def differing(tmp_path: Path, name: str = "a/1") -> ItemComparison:
    """4 s and 3 s of sound that part at 2 s."""
    ours = document([("one", 0.08, 1.0), ("two", 1.92, 2.4), ("four", 2.4, 3.0)])
    theirs = document([("one", 0.08, 1.0), ("three", 2.16, 2.4), ("four", 2.4, 3.0)])
    return ItemComparison(
        name,
        Status.compared,
        True,
        f"other words in {name}",
        Recorded(name, ours, audio=sound(tmp_path / "ours.wav", 4)),
        Recorded(name, theirs, audio=sound(tmp_path / "theirs.wav", 3, 8000)),
        (Verdict(Rung.tokens, Outcome.different, "at frame 25"), Verdict(Rung.loudness, Outcome.unknown)),
        DIFFERENCE,
        (IdentityDifference("engine.versions.torch", "2.6.0", "2.7.1"),),
        (Expectation('must_say "two"', False, "said nowhere"), Expectation("max_silence 4", True, "")),
    )


def with_got(item: ItemComparison, audio: Path) -> ItemComparison:
    assert item.got
    return replace(item, got=replace(item.got, audio=audio))


def plain(name: str, status: Status = Status.compared, fails: bool = False) -> ItemComparison:
    return ItemComparison(name, status, fails, f"summary of {name}", Recorded(name), Recorded(name))


def text_of(
    tmp_path: Path, *items: ItemComparison, limit: int = 50, names: tuple[str, str] = ("goldens", "new")
) -> str:
    path = tmp_path / "made" / "page.html"
    write_page(Comparison(*names, Level.words, Tolerances(word_error_rate=0.1), items), path, limit)
    return path.read_text(encoding="utf-8")


def page_of(tmp_path: Path, *items: ItemComparison, limit: int = 50) -> Page:
    return Page(text_of(tmp_path, *items, limit=limit))


def decoded(uri: str) -> tuple[Any, int]:
    kind, _, data = uri.partition(",")
    assert kind == "data:audio/mpeg;base64"
    return soundfile.read(io.BytesIO(base64.b64decode(data)))


def test_the_heading_says_what_was_compared_and_how_it_came_out(tmp_path: Path) -> None:
    items = (differing(tmp_path), plain("b"), plain("c", Status.missing, True), plain("d", Status.failed))
    page = page_of(tmp_path, *items)
    assert page.all("h1")[0]["text"] == "goldens (expected) and new (got)"
    assert page.all("p", "verdict")[0]["text"] == "✗ 2 of 4 items fail"
    assert [count["text"] for count in page.all("span", "count")] == ["1 same", "1 different", "1 missing", "1 failed"]
    [said] = [p["text"] for p in page.all("p", "quiet") if p["text"].startswith("Level")]
    assert said.startswith(
        "Level: words. Still the same: a word error rate up to 0.1, words' times within 1 frame (80 ms)"
    )


def test_a_comparison_without_faults_says_so(tmp_path: Path) -> None:
    page = page_of(tmp_path, plain("b"))
    assert (page.all("p", "verdict")[0]["text"], page.all("section")) == ("✓ no item fails", [])


def test_every_item_has_a_row_with_a_sign_for_each_rung(tmp_path: Path) -> None:
    page = page_of(tmp_path, plain("b"), differing(tmp_path))
    signs = [(cell["data-rung"], cell["text"], cell["title"]) for cell in page.all("td", "rung")]
    assert [sign for _, sign, _ in signs] == ["–"] * 5 + ["≠", "–", "–", "–", "?"]
    assert signs[5] == ("tokens", "≠", "different: at frame 25")
    assert [cell["text"] for cell in page.all("td", "summary")] == [
        "summary of b",
        'other words in a/1 ✗ not met: must_say "two": said nowhere ✓ met: max_silence 4',
    ]


def test_what_the_runs_do_not_have_in_common_is_told(tmp_path: Path) -> None:
    page = page_of(tmp_path, differing(tmp_path), replace(differing(tmp_path), id="a/2"))
    [table] = page.all("table", "identity")
    assert table["text"].endswith("engine.versions.torch2.6.02.7.12")


def test_the_sound_is_in_the_page_at_its_full_length(tmp_path: Path) -> None:
    ours, theirs = page_of(tmp_path, differing(tmp_path)).all("audio")
    assert ours["aria-label"] == "expected: a/1"
    for player, seconds in ((ours, 4), (theirs, 3)):
        samples, rate = decoded(player["src"])
        assert (rate, samples.shape) == (24_000, (seconds * 24_000,))
        # Not moved in time either: the sine is where it was, but for the edges.
        expected = 0.5 * np.sin(np.arange(len(samples)) * 2 * np.pi * 220 / rate)
        np.testing.assert_allclose(samples[2000:-2000], expected[2000:-2000], atol=0.05)


def test_the_outlines_share_one_scale_of_time_and_loudness(tmp_path: Path) -> None:
    item = differing(tmp_path)
    quiet = with_got(item, sound(tmp_path / "quiet.wav", 3, level=0.25))
    ours, theirs = (
        np.array([[int(number) for number in point.split(",")] for point in polygon["points"].split()])
        for polygon in page_of(tmp_path, quiet).all("polygon")
    )
    assert (ours[:, 0].max(), theirs[:, 0].max()) == (799, 599)
    assert (ours[:, 1].min(), ours[:, 1].max()) == (0, 200)
    assert (theirs[:, 1].min(), theirs[:, 1].max()) == (50, 150)


def test_the_first_difference_is_marked_on_both_sides(tmp_path: Path) -> None:
    page = page_of(tmp_path, differing(tmp_path))
    assert [(line["x1"], line["x2"]) for line in page.all("line", "mark")] == [("400.0", "400.0")] * 2
    flags = page.all("button", "flag")
    assert [flag["text"] for flag in flags] == ["◆ frame 25, 2.00 s, codebook 0: 1023 → end"] * 2
    assert [flag["data-at"] for flag in flags] == ["2.0"] * 2
    assert "left: 50.0%" in flags[0]["style"]
    assert json.loads(page.all("script")[0]["text"]) == [{"seconds": 4.0, "second": 2.0}]
    assert page.all("button", "both")[0]["text"] == "▶ Play both from the difference"


def test_words_that_differ_and_those_at_the_difference_are_marked(tmp_path: Path) -> None:
    words = page_of(tmp_path, differing(tmp_path)).all("button", "word")
    assert [word["text"] for word in words] == [
        *("one0.08", "◆−two1.92", "four2.40"),
        *("one0.08", "◆+three2.16", "four2.40"),
    ]
    assert [word["data-at"] for word in words] == ["0.08", "1.92", "2.4", "0.08", "2.16", "2.4"]
    assert [word["tabindex"] for word in words] == ["0", "-1", "-1"] * 2


def test_a_side_without_sound_says_so(tmp_path: Path) -> None:
    item = differing(tmp_path)
    assert item.expected
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(b"RIFF")
    silent = with_got(replace(item, expected=replace(item.expected, audio=None)), damaged)
    failed = replace(item, id="b", status=Status.broken, got=Recorded("b", failure="not heard"))
    page = page_of(tmp_path, silent, failed, replace(item, id="c", status=Status.extra, expected=None))
    told = [p["text"] for p in page.all("p", "quiet") if p["text"].startswith(("no audio", "not in"))]
    assert told[0] == "no audio"
    assert told[1].startswith(f"no audio: {damaged}: is not audio")
    assert told[2:] == ["no audio: not heard", "not in this run"]
    assert len(page.all("line", "playhead")) == len(page.all("audio")) == 2
    assert [("disabled" in button, button["text"]) for button in page.all("button", "both")] == [
        (True, "▶ Play from the difference"),
        (False, "▶ Play from the difference"),
        (False, "▶ Play from the difference"),
    ]


def test_those_that_fail_come_first_and_those_left_out_are_counted(tmp_path: Path) -> None:
    forgiven = replace(differing(tmp_path, "forgiven"), fails=False)
    items = (
        plain("same"),
        forgiven,
        differing(tmp_path, "one"),
        plain("both failed", Status.failed),
        plain("x", fails=True),
    )
    page = page_of(tmp_path, *items)
    shown = [heading["text"] for heading in page.all("h2") if "id" in heading]
    assert shown == ["✗ one different", "✗ x same", "✓ forgiven different"]
    assert [link["href"] for link in page.all("a")] == ["#call-2", "#call-0", "#call-1"]
    assert page.all("p", "left-out") == []
    page = page_of(tmp_path, *items, limit=1)
    assert len(page.all("section")) == 1
    assert page.all("p", "left-out")[0]["text"].startswith("2 more items that differ are left out here")
    assert page_of(tmp_path, *items, limit=2).all("p", "left-out")[0]["text"].startswith("1 more item that differs is")


def hostile(tmp_path: Path) -> ItemComparison:
    item = differing(tmp_path)
    spoken = document([(HOSTILE, 0.0, 1.0)])
    return replace(
        item,
        id=HOSTILE,
        summary=HOSTILE,
        expected=Recorded(HOSTILE, spoken),
        got=Recorded(HOSTILE, failure=HOSTILE),
        verdicts=(Verdict(Rung.tokens, Outcome.different, HOSTILE),),
        difference=replace(DIFFERENCE, second=0.5, stream=HOSTILE),
        identity=(IdentityDifference(HOSTILE, HOSTILE, [HOSTILE]),),
        expectations=(Expectation(HOSTILE, False, HOSTILE),),
    )


def test_untrusted_text_is_shown_and_never_run(tmp_path: Path) -> None:
    text = text_of(tmp_path, hostile(tmp_path), names=(HOSTILE, HOSTILE))
    page = Page(text)
    assert "<img" not in text
    assert page.all("img") == []
    assert len(page.all("script")) == text.count("</script>") == 2
    assert page.all("title")[0]["text"].startswith(f"{HOSTILE} and {HOSTILE}")
    assert page.all("button", "word")[0]["text"] == f"◆{HOSTILE}0.00"
    assert not [name for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]


def test_the_page_needs_no_other_file_and_no_network(tmp_path: Path) -> None:
    text = text_of(tmp_path, differing(tmp_path), hostile(tmp_path))
    sources = [
        value
        for _, attributes, _ in Page(text).elements
        for name, value in attributes.items()
        if name in ("src", "href", "data", "action", "poster", "srcset", "xlink:href")
    ]
    assert sources
    assert all(value.startswith(("data:", "#")) for value in sources)
    assert not re.search(r"https?://|@import|url\(", text)


def test_a_lone_surrogate_is_replaced(tmp_path: Path) -> None:
    assert page_of(tmp_path, plain("a\ud800b")).all("th")[-1]["text"] == "✓ a?b"


def test_the_same_comparison_is_the_same_page(tmp_path: Path) -> None:
    item = differing(tmp_path)
    assert text_of(tmp_path, item) == text_of(tmp_path, item)


@pytest.mark.parametrize("seconds", [1 / 24_000, 0.01, 65.0])
def test_a_sound_of_any_length_is_drawn(tmp_path: Path, seconds: float) -> None:
    rate = 24_000 if seconds < 1 else 8000
    recorded = Recorded("a", document([]), audio=sound(tmp_path / "any.wav", seconds, rate))
    page = page_of(tmp_path, replace(plain("a", Status.missing, True), expected=recorded, got=None))
    [polygon] = page.all("polygon")
    rows = [point.split(",")[1] for point in polygon["points"].split()]
    assert all(0 <= int(row) <= 200 for row in rows)
