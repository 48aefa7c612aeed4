"""A comparison as JUnit XML, in the shape of xunit2 that pytest writes: a test case an item, one an expectation."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from personaplex.compare.agreement import run_agreement
from personaplex.compare.reports.telling import alike, details, run_alike
from personaplex.compare.verdicts import Comparison, Expectation, ItemComparison, Status
from personaplex.core.files import write_text

CLASS = "personaplex.compare"

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # by XML 1.0, section 2.2


def write_junit(comparison: Comparison, path: Path) -> None:
    """Write `comparison` to `path`, whole or not at all, making its folder; an `InputError` if that fails.

    An item that fails is a failure, one that has an answer on neither side and doesn't fail is skipped. What the runs
    have in common is in the suite's properties, what an item's answers have in its output. What XML can't hold becomes
    U+FFFD. Times are 0: none is known.
    """
    suite = TestSuite(_clean(f"{comparison.expected} and {comparison.got}"))
    found = run_agreement(comparison)
    for name, phrase in run_alike(found).items() if found.items else ():
        suite.add_property(name, _clean(phrase))
    suite.add_testcases([case for item in comparison.items for case in _cases(item)])
    report = JUnitXml("personaplex compare")
    report.add_testsuite(suite)
    xml = io.BytesIO()
    report.write(xml)
    write_text(path, xml.getvalue().decode())


def _cases(item: ItemComparison) -> Iterator[TestCase]:
    if item.fails:
        case = _case(item.id, Failure(_clean(item.summary)), "\n".join(details(item)))
    elif item.status is Status.failed:
        case = _case(item.id, Skipped(_clean(item.summary)), "\n".join(details(item)))
    else:
        case = _case(item.id)
    if item.agreement:
        case.system_out = f"in common: {alike(item.agreement)}"
    yield case
    for expectation in item.expectations:
        yield _expected(item.id, expectation)


def _expected(id_: str, expectation: Expectation) -> TestCase:
    name = f"{id_}: {expectation.name}"
    if expectation.passed:
        return _case(name)
    return _case(name, Failure(_clean(f"not met: {expectation.name}")), expectation.detail)


def _case(name: str, result: FinalResult | None = None, text: str = "") -> TestCase:
    case = TestCase(_clean(name), CLASS, 0)
    if result:
        result.text = _clean(text)
        case.result = result
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
