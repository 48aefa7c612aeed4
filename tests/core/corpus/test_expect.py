"""What a row may expect, and what makes no sense."""

from typing import Any

import pytest
from pydantic import ValidationError

from personaplex.core.corpus.expect import Expect


def test_a_phrase_alone_is_a_list_of_it() -> None:
    expect = Expect.model_validate({"must_say": "refund", "must_not_say": ["/bye$/", "24"]})
    assert (expect.must_say, expect.must_not_say) == (["refund"], ["/bye$/", "24"])
    assert Expect.model_validate({}) == Expect()


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"must_sai": "refund"}, ("must_sai",)),
        ({"must_say": 3}, ("must_say",)),
        ({"must_say": ["a", None]}, ("must_say", 1)),
        ({"must_say": ["a", "?!"]}, ("must_say", 1)),
        ({"must_say": ""}, ("must_say", 0)),
        ({"must_say": "/"}, ("must_say", 0)),
        ({"must_not_say": "//"}, ("must_not_say", 0)),
        ({"must_not_say": "/(/"}, ("must_not_say", 0)),
        ({"must_say": "/" + "(" * 10_000 + "/"}, ("must_say", 0)),
        ({"max_response_delay": 0}, ("max_response_delay",)),
        ({"max_response_delay": "2"}, ("max_response_delay",)),
        ({"max_overlap": -0.1}, ("max_overlap",)),
        ({"max_overlap": float("inf")}, ("max_overlap",)),
        ({"max_overlap": True}, ("max_overlap",)),
        ({"min_words": -1}, ("min_words",)),
        ({"min_words": 1.5}, ("min_words",)),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], place: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        Expect.model_validate(asked)
    assert [error["loc"] for error in caught.value.errors()] == [place]
