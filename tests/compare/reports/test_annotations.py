import re

from hypothesis import given
from hypothesis import strategies as st

from personaplex.compare.reports.annotations import annotations
from personaplex.compare.verdicts import (
    Comparison,
    FirstDifference,
    IdentityDifference,
    ItemComparison,
    Level,
    Status,
    Tolerances,
)


def compared(*items: ItemComparison) -> Comparison:
    return Comparison("goldens", "new", Level.tokens, Tolerances(), items)


def item(
    name: str,
    fails: bool = True,
    summary: str = "differs",
    difference: FirstDifference | None = None,
    identity: tuple[IdentityDifference, ...] = (),
) -> ItemComparison:
    return ItemComparison(name, Status.compared, fails, summary, None, None, (), difference, identity)


def test_an_item_that_fails_is_an_error_and_another_is_none() -> None:
    lines = annotations(compared(item("calls/a"), item("b", fails=False)))
    assert lines == ["::error title=personaplex compare%3A calls/a::differs"]


def test_the_words_at_the_first_difference_are_told() -> None:
    difference = FirstDifference(12, 0.96, "text", 3, 9, "thanks for calling", "")
    [line] = annotations(compared(item("a", difference=difference)))
    assert line.endswith("::differs%0Aexpected words at 0.96 s: thanks for calling%0Agot words at 0.96 s: (none)")


def test_beyond_the_limit_items_are_counted() -> None:
    items = [item(str(number)) for number in range(13)]
    lines = annotations(compared(*items, item("fine", fails=False)))
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::notice"]
    assert lines[-1] == "::notice title=personaplex compare::3 more items of 14 failed beyond the 10 shown"
    assert "1 more item of" in annotations(compared(*items[:3]), limit=2)[-1]
    assert len(annotations(compared(*items[:10]))) == 10


def test_identities_that_differ_are_one_warning() -> None:
    torch = IdentityDifference("engine.versions.torch", "2.6", "2.7")
    lines = annotations(
        compared(
            item("a", fails=False, identity=(torch, IdentityDifference("sampling.seed", 1, 2))),
            item("b", fails=False, identity=(torch, IdentityDifference("sampling.seed", 3, 4))),
        )
    )
    assert lines == [
        "::warning title=personaplex compare::the runs were not made alike:"
        "%0Aengine.versions.torch: 2.6 → 2.7 (2 items)%0Asampling.seed: varies → varies (2 items)"
    ]


def test_nothing_wrong_says_nothing() -> None:
    assert annotations(compared(item("a", fails=False))) == []


def test_github_cannot_be_given_another_command() -> None:
    [line] = annotations(compared(item("a,file=x::b\n::stop-commands::c", summary="100%\r\n::error::no, really: this")))
    assert line == (
        "::error title=personaplex compare%3A a%2Cfile=x%3A%3Ab%0A%3A%3Astop-commands%3A%3Ac"
        "::100%25%0D%0A::error::no, really: this"
    )


def unescaped(text: str) -> str:
    for code, sign in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


@given(name=st.text(st.sampled_from("a%:,\r\n=25DAC")), summary=st.text(st.sampled_from("a%:,\r\n25DAC")))
def test_any_text_comes_back_whole(name: str, summary: str) -> None:
    [line] = annotations(compared(item(name, summary=summary)))
    found = re.fullmatch(r"::error title=([^:,\r\n]*)::([^\r\n]*)", line)
    assert found
    assert (unescaped(found[1]), unescaped(found[2])) == (f"personaplex compare: {name}", summary)
