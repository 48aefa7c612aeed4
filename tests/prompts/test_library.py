"""The role library: what it holds, and how fields are found and filled in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.errors import UsageError
from personaplex.prompts import library

CALL_CENTRE = [
    "airline",
    "appliance_repair",
    "bank_card",
    "clinic",
    "delivery",
    "hotel",
    "insurance_claim",
    "power_outage",
    "public_office",
    "rental",
    "restaurant",
    "telecom",
]


def test_every_role_is_listed_and_readable() -> None:
    names = library.names()
    assert names == sorted(names)
    assert names == sorted(["conversation", "teacher", *CALL_CENTRE])
    assert all(library.text(name) for name in names)


def test_roles_that_the_model_was_trained_with_are_exact() -> None:
    assert library.text("teacher") == (
        "You are a wise and friendly teacher. Answer questions or provide advice in a clear and engaging way."
    )
    assert library.text("conversation") == "You enjoy having a good conversation."


@pytest.mark.parametrize("name", library.names())
def test_role_is_one_line_without_stray_braces(name: str) -> None:
    text = library.text(name)
    assert text.splitlines() == [text]
    filled = library.render(name, dict.fromkeys(library.fields(text), "x"))
    assert "{" not in filled
    assert "}" not in filled


@pytest.mark.parametrize("name", CALL_CENTRE)
def test_call_centre_roles_name_the_company_the_agent_and_facts(name: str) -> None:
    text = library.text(name)
    assert text.startswith("You work for {company} which is a")
    assert "Information:" in text
    assert library.fields(text)[:2] == ["company", "agent"]
    assert 2 <= len(library.fields(text)[2:]) <= 5


def test_unknown_role_suggests_a_close_one_and_lists_all() -> None:
    with pytest.raises(UsageError) as caught:
        library.text("Techer")
    assert '"Techer"' in caught.value.what
    assert 'did you mean "teacher"?' in caught.value.mend
    assert all(name in caught.value.mend for name in library.names())


@pytest.mark.parametrize("name", ["", "zzzzzz", "../roles/teacher", "teacher.txt"])
def test_only_listed_names_are_roles(name: str) -> None:
    with pytest.raises(UsageError):
        library.text(name)


def test_unknown_role_without_a_close_one_makes_no_guess() -> None:
    with pytest.raises(UsageError) as caught:
        library.text("zzzzzz")
    assert "did you mean" not in caught.value.mend


def test_fields_come_once_in_order_and_only_identifiers_count() -> None:
    assert library.fields("{b} {a} {b} {} {1a} {a b} {a.b} {a!r} {a:>3} {{c}} {d") == ["b", "a", "c"]


def test_render_fills_every_field() -> None:
    values = {field: f"<{field}>" for field in library.fields(library.text("clinic"))}
    text = library.render("clinic", values)
    assert text.startswith("You work for <company> which is a doctor's clinic and your name is <agent>.")
    assert all(value in text for value in values.values())


def test_render_names_every_missing_field() -> None:
    values = dict.fromkeys(library.fields(library.text("restaurant")), "x")
    del values["agent"], values["hours"]
    with pytest.raises(UsageError, match="lacks a value for fields agent, hours"):
        library.render("restaurant", values)


def test_render_rejects_unknown_fields_and_names_the_known() -> None:
    values = dict.fromkeys(library.fields(library.text("restaurant")), "x")
    with pytest.raises(UsageError) as caught:
        library.render("restaurant", {**values, "agnet": "Mia"})
    assert caught.value.what == 'role "restaurant" has no field agnet'
    assert all(field in caught.value.mend for field in values)


def test_render_of_a_role_without_fields_takes_none() -> None:
    assert library.render("teacher", {}) == library.text("teacher")
    with pytest.raises(UsageError) as caught:
        library.render("teacher", {"agent": "Mia"})
    assert "no fields" in caught.value.mend


@given(value=st.text() | st.sampled_from(["{agent}", "{company}", r"\1", r"\g<0>", "{0}"]))
def test_values_are_inserted_literally(value: str) -> None:
    names = library.fields(library.text("bank_card"))
    parts = library.render("bank_card", dict.fromkeys(names, "\0")).split("\0")
    assert len(parts) == len(names) + 1
    assert library.render("bank_card", dict.fromkeys(names, value)) == value.join(parts)
