import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import Failure, JUnitXml, Skipped

from personaplex.compare.reports.junit import write_junit
from personaplex.compare.verdicts import (
    Agreement,
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
from personaplex.core.errors import InputError

PYTEST_FILE = """
import pytest

def test_passes(record_testsuite_property):
    record_testsuite_property("name", "value")
    print("output")

def test_fails():
    assert False

def test_is_skipped():
    pytest.skip("why")
"""


OPTIONS = ("-o", "junit_family=xunit2", "-o", "junit_logging=system-out")


def compared(*items: ItemComparison) -> Comparison:
    return Comparison("goldens", "runs/new", Level.tokens, Tolerances(), items)


def item(name: str, status: Status = Status.compared, fails: bool = False, **found: object) -> ItemComparison:
    side = Recorded(name)
    return ItemComparison(name, status, fails, f"summary of {name}", side, side, **found)  # type: ignore[arg-type]


DIFFERS = item(
    "a/1",
    fails=True,
    verdicts=(Verdict(Rung.tokens, Outcome.different, "at frame 12"), Verdict(Rung.loudness, Outcome.same)),
    difference=FirstDifference(12, 0.96, "codebook 0", 1023, None, "thanks for <calling>", "thanks for"),
    identity=(IdentityDifference("engine.versions.torch", "2.6.0", None),),
    expectations=(
        Expectation('must_say "refund"', False, "said nowhere"),
        Expectation("max_silence 4", True, "1.2 s"),
    ),
    agreement=Agreement(text_frames=50, same_text=48, speech_frames=50, same_speech=45, words=3, word_errors=1),
)


def written(tmp_path: Path, *items: ItemComparison) -> JUnitXml:
    write_junit(compared(*items), tmp_path / "reports" / "compare.xml")
    return JUnitXml.fromfile(str(tmp_path / "reports" / "compare.xml"))


def test_each_item_and_each_expectation_is_a_case(tmp_path: Path) -> None:
    [suite] = written(tmp_path, DIFFERS, item("b"), item("c", Status.failed))
    assert suite.name == "goldens and runs/new"
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 2, 0, 1)
    assert [case.name for case in suite] == ["a/1", 'a/1: must_say "refund"', "a/1: max_silence 4", "b", "c"]
    assert {case.classname for case in suite} == {"personaplex.compare"}
    assert [type(result) for case in suite for result in case.result] == [Failure, Failure, Skipped]
    assert [bool(case.is_passed) for case in suite] == [False, False, True, True, False]


def test_a_failure_tells_what_was_found(tmp_path: Path) -> None:
    [suite] = written(tmp_path, DIFFERS)
    case, unmet, _ = suite
    [failure] = case.result
    assert failure.message == "summary of a/1"
    assert failure.text.splitlines() == [
        "tokens: different: at frame 12",
        "loudness: same",
        "first difference: frame 12, 0.96 s, codebook 0: 1023 → end",
        "  expected words: thanks for <calling>",
        "  got words:      thanks for",
        "in common: text token 96.0 %, speech 90.0 %, 33.3 % WER",
        "not alike: engine.versions.torch: 2.6.0 → none",
        'not met: must_say "refund": said nowhere',
    ]
    [failure] = unmet.result
    assert (failure.message, failure.text) == ('not met: must_say "refund"', "said nowhere")


def test_what_the_answers_have_in_common_is_told(tmp_path: Path) -> None:
    alike = item("b", agreement=Agreement(50, 50, 50, 50, 3, 0))
    [suite] = written(tmp_path, DIFFERS, alike, item("c", Status.failed))
    assert {one.name: one.value for one in suite.properties()} == {
        "text token": "the same in 98.0 % of 100 frames",
        "speech": "both agents speak or both are silent in 95.0 % of 100 frames",
        "word error rate": "16.7 % of 6 words",
        "first difference": "in 1 of 2 items, 0.96 s in by the median, earliest 0.96 s in (a/1)",
    }
    assert [case.system_out for case in suite] == [
        *("in common: text token 96.0 %, speech 90.0 %, 33.3 % WER", None, None),
        *("in common: text token 100.0 %, speech 100.0 %, 0 % WER", None),
    ]


def test_the_reason_why_a_side_failed_is_told(tmp_path: Path) -> None:
    broken = ItemComparison("b", Status.broken, True, "failed", Recorded("b", {}), Recorded("b", failure="no audio"))
    [suite] = written(tmp_path, broken)
    [case] = suite
    assert case.result[0].text == "got: failed: no audio"


def test_an_empty_comparison_is_a_suite_of_no_cases(tmp_path: Path) -> None:
    [suite] = written(tmp_path)
    assert (suite.tests, suite.failures, len(suite)) == (0, 0, 0)


def test_what_xml_cannot_hold_is_replaced(tmp_path: Path) -> None:
    [suite] = written(tmp_path, item("a\x00\x1b[0m\ud800\uffff\tb & <c>\U0001f600", fails=True))
    [case] = suite
    assert case.name == "a\ufffd\ufffd[0m\ufffd\ufffd\tb & <c>\U0001f600"
    assert case.result[0].message == f"summary of {case.name}"


def test_the_same_comparison_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.xml", "two.xml"):
        write_junit(compared(DIFFERS, item("b")), tmp_path / name)
    assert (tmp_path / "one.xml").read_bytes() == (tmp_path / "two.xml").read_bytes()


def test_a_path_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        write_junit(compared(), tmp_path)


def shape(element: ElementTree.Element, above: str = "") -> Iterator[str]:
    """The paths of all elements and attributes."""
    path = f"{above}/{element.tag}"
    yield path
    yield from (f"{path}@{name}" for name in element.attrib)
    for child in element:
        yield from shape(child, path)


def shapes(path: Path) -> set[str]:
    return set(shape(ElementTree.parse(path).getroot()))  # noqa: S314 - written a moment ago


def test_the_shape_is_that_of_pytests_own_report(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST_FILE)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *OPTIONS, "--junitxml=pytest.xml", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        check=False,  # a test fails, as it should
    )
    write_junit(compared(DIFFERS, item("b"), item("c", Status.failed)), tmp_path / "ours.xml")
    theirs, ours = (shapes(tmp_path / name) for name in ("pytest.xml", "ours.xml"))
    # Where and when the tests ran is not known here, and a skip's type is pytest's own.
    unknown = {"/testsuites/testsuite@hostname", "/testsuites/testsuite@timestamp"}
    assert theirs - ours == unknown | {"/testsuites/testsuite/testcase/skipped@type"}
    assert ours - theirs == set()
