import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.answers.exports import EXPORTERS, Transcript, frame_texts, parse_formats
from personaplex.core.answers.transcript import Word, segments
from personaplex.core.errors import UsageError
from personaplex.core.lm.tokenizer import Tokenizer

TOKENIZER = Tokenizer(Path(__file__).parents[2] / "data" / "tokenizer.model")
SPOKEN = [Word("Q&A:", 0.0, 0.4, 0), Word('<"no">', 0.48, 0.8, 6), Word("Bye.", 3725.04, 3725.2, 46563)]
CALL = Transcript("a/my call", segments(SPOKEN), ["PAD"] * 46_566)
SILENCE = Transcript("b", [], ["PAD"] * 3)

# Tokens and the reference's own words for them, from a small seeded run.
REFERENCE_TOKENS = [3, 101, 178, 167, 132, 1, 162, 117, 138, 178, 112, 121, 172, 67, 57, 139, 141, 40, 20]
REFERENCE_TOKENS += [17, 31, 158, 67, 45, 0, 17, 168, 112, 94, 17, 60, 173, 39, 63, 122, 147, 172, 4]
REFERENCE_TEXT = ["PAD", " en", "P", "as", " A", "<s>", "te", "et", "cal", "P", "end", "ec", "R", "na", "ay", "vi"]
REFERENCE_TEXT += ["ri", "h", " You", "d", "re", " pr", "na", "day", "EPAD", "d", "S", "end", " Th", "d", "ll", "H"]
REFERENCE_TEXT += [" p", " day", " R", "4", "R", " "]


def render(name: str, transcript: Transcript = CALL) -> str:
    return EXPORTERS[name].render(transcript)


def test_suffixes() -> None:
    suffixes = {name: exporter.suffix for name, exporter in EXPORTERS.items()}
    assert suffixes == {
        "srt": ".srt",
        "vtt": ".vtt",
        "ctm": ".ctm",
        "textgrid": ".TextGrid",
        "frames": ".frames.json",
    }


def test_srt() -> None:
    first = '1\n00:00:00,000 --> 00:00:00,800\nQ&A: <"no">\n'
    assert render("srt") == f"{first}\n2\n01:02:05,040 --> 01:02:05,200\nBye.\n"


def test_vtt_escapes_markup() -> None:
    first = '00:00:00.000 --> 00:00:00.800\n<v Agent>Q&amp;A: &lt;"no"&gt;\n'
    assert render("vtt") == f"WEBVTT\n\n{first}\n01:02:05.040 --> 01:02:05.200\n<v Agent>Bye.\n"


def test_ctm_has_five_fields_a_line() -> None:
    assert render("ctm").splitlines() == [
        "a/my_call 1 0.00 0.40 Q&A:",
        'a/my_call 1 0.48 0.32 <"no">',
        "a/my_call 1 3725.04 0.16 Bye.",
    ]


def test_frames_are_the_references_flat_list() -> None:
    said = frame_texts(REFERENCE_TOKENS, TOKENIZER)
    assert said == REFERENCE_TEXT
    assert json.loads(render("frames", Transcript("a", [], said))) == REFERENCE_TEXT


def test_textgrid() -> None:
    words = [Word('"so"', 0.08, 0.16, 1), Word("it", 0.16, 0.24, 2)]
    assert render("textgrid", Transcript("a", segments(words), ["PAD"] * 4)) == (
        'File type = "ooTextFile"\n'
        'Object class = "TextGrid"\n'
        "\n"
        "xmin = 0.00\n"
        "xmax = 0.32\n"
        "tiers? <exists>\n"
        "size = 2\n"
        "item []:\n"
        "    item [1]:\n"
        '        class = "IntervalTier"\n'
        '        name = "words"\n'
        "        xmin = 0.00\n"
        "        xmax = 0.32\n"
        "        intervals: size = 4\n"
        "        intervals [1]:\n"
        "            xmin = 0.00\n"
        "            xmax = 0.08\n"
        '            text = ""\n'
        "        intervals [2]:\n"
        "            xmin = 0.08\n"
        "            xmax = 0.16\n"
        '            text = """so"""\n'
        "        intervals [3]:\n"
        "            xmin = 0.16\n"
        "            xmax = 0.24\n"
        '            text = "it"\n'
        "        intervals [4]:\n"
        "            xmin = 0.24\n"
        "            xmax = 0.32\n"
        '            text = ""\n'
        "    item [2]:\n"
        '        class = "IntervalTier"\n'
        '        name = "segments"\n'
        "        xmin = 0.00\n"
        "        xmax = 0.32\n"
        "        intervals: size = 3\n"
        "        intervals [1]:\n"
        "            xmin = 0.00\n"
        "            xmax = 0.08\n"
        '            text = ""\n'
        "        intervals [2]:\n"
        "            xmin = 0.08\n"
        "            xmax = 0.24\n"
        '            text = """so"" it"\n'
        "        intervals [3]:\n"
        "            xmin = 0.24\n"
        "            xmax = 0.32\n"
        '            text = ""\n'
    )


@given(st.lists(st.integers(1, 20), max_size=12), st.integers(1, 5))
def test_textgrid_tiers_cover_the_call(steps: list[int], rest: int) -> None:
    words, frame = [], 0
    for gap, length in zip(steps[::2], steps[1::2], strict=False):
        start = frame + gap - 1
        frame = start + length
        words.append(Word("so", round(start * 0.08, 2), round(frame * 0.08, 2), start))
    text = render("textgrid", Transcript("a", segments(words), ["PAD"] * (frame + rest)))
    for tier in text.split("    item [")[1:]:
        intervals = re.findall(r'xmin = (\S+)\n +xmax = (\S+)\n +text = "(.*)"', tier)
        assert f"intervals: size = {len(intervals)}\n" in tier
        assert intervals[0][0] == "0.00"
        assert float(intervals[-1][1]) == round((frame + rest) * 0.08, 2)
        assert all(before[1] == after[0] for before, after in pairwise(intervals))
        assert all(float(start) < float(end) for start, end, _ in intervals)
        assert " ".join(label for *_, label in intervals if label) == " ".join(["so"] * len(words))


def test_a_call_without_words() -> None:
    assert render("srt", SILENCE) == ""
    assert render("vtt", SILENCE) == "WEBVTT\n"
    assert render("ctm", SILENCE) == ""
    assert render("textgrid", SILENCE).count("intervals: size = 1\n") == 2
    assert render("frames", SILENCE) == '["PAD", "PAD", "PAD"]\n'


def test_parse_formats() -> None:
    assert parse_formats("json") == ("json",)
    assert parse_formats("vtt, srt,TextGrid,vtt") == ("vtt", "srt", "textgrid")
    assert parse_formats("json,srt,vtt,ctm,textgrid,frames") == ("json", *EXPORTERS)


@pytest.mark.parametrize(("text", "name"), [("docx", "docx"), ("srt,,vtt", ""), ("", ""), ("srt vtt", "srt vtt")])
def test_parse_formats_refuses_others(text: str, name: str) -> None:
    with pytest.raises(UsageError, match=f'--format: "{name}" is not a format') as raised:
        parse_formats(text)
    assert raised.value.mend == "choose from json,srt,vtt,ctm,textgrid,frames"
