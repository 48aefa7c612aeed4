"""A prompt that leaves nothing of the context to the call is refused."""

import pytest

from personaplex.core.engine.prompt_length import PromptLength
from personaplex.core.errors import UsageError


def test_what_it_takes() -> None:
    assert PromptLength(10, 20).frames == 42
    assert PromptLength(10, None).frames == 22
    PromptLength(10, 20).check(43)


@pytest.mark.parametrize("context", [42, 41])
def test_nothing_left(context: int) -> None:
    with pytest.raises(UsageError) as caught:
        PromptLength(10, 20).check(context)
    parts = "10 tokens of text, 12 frames of silence, 20 frames of voice"
    assert caught.value.what == f"the prompt takes 42 frames (3.36 s): {parts}"
    assert f"the context holds {context}" in caught.value.mend
