"""The first token drawn that differs, and the first sample."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save_file

from personaplex.compare import difference
from personaplex.compare.difference import first_different_second, foreign_tokens, tokens_of
from personaplex.compare.recorded import read_run
from personaplex.compare.verdicts import FirstDifference, Recorded
from personaplex.core.errors import UsageError

STREAMS = ["text", *(f"codebook {number}" for number in range(8))]
TOKENS = st.integers(0, 4).flatmap(lambda frames: arrays(np.int32, (frames, 9), elements=st.integers(0, 1)))


def first_difference(expected: Recorded, got: Recorded) -> FirstDifference | None:
    return difference.first_difference(tokens_of(expected), tokens_of(got), expected, got)


FOREIGN = "its tokens are not those of the transcript's tokens_sha256"


def with_tokens(document: Any, tokens: Any, **changes: Any) -> Recorded:
    """An item that holds its tokens in its document, as a golden does."""
    return Recorded("call", document(tokens=tokens, **changes) | {"tokens": tokens.tolist()})


def drawn(tokens: Any) -> list[tuple[int, str, int]]:
    """Frame, stream and token in the order of drawing: step by step, and within a step stream by stream."""
    order = []
    for step in range(len(tokens) + 1):
        for stream, name in enumerate(STREAMS):
            frame = step - (stream > 1)
            if 0 <= frame < len(tokens):
                order.append((frame, name, int(tokens[frame, stream])))
    return order


@given(one=TOKENS, other=TOKENS)
def test_it_is_the_first_that_differs_in_the_order_of_drawing(one: Any, other: Any, document: Any) -> None:
    ours, theirs = ({(frame, name): token for frame, name, token in drawn(tokens)} for tokens in (one, other))
    longer = drawn(max(one, other, key=len))
    places = [(frame, name) for frame, name, _ in longer if ours.get((frame, name)) != theirs.get((frame, name))]
    found = first_difference(with_tokens(document, one), with_tokens(document, other))
    if not places:
        assert found is None
        return
    assert found is not None
    assert (found.frame, found.stream) == places[0]
    assert (found.expected, found.got) == (ours.get(places[0]), theirs.get(places[0]))
    assert found.second == round(found.frame * 0.08, 2)


def test_a_delayed_codebook_comes_after_the_next_frames_text(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[10, 4] += 1
    alone = first_difference(with_tokens(document, some_tokens), with_tokens(document, changed))
    changed[11, 0] += 1
    both = first_difference(with_tokens(document, some_tokens), with_tokens(document, changed))
    assert alone is not None
    assert both is not None
    assert (alone.frame, alone.second, alone.stream) == (10, 0.8, "codebook 3")
    assert (both.frame, both.second, both.stream) == (11, 0.88, "text")


def test_words_around_it_are_those_of_either_side(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[25, 0] += 1  # 2.00 s
    text = " ".join(f"w{number}" for number in range(20))
    found = first_difference(
        with_tokens(document, some_tokens, text=text, start=-2.0),
        with_tokens(document, changed, text="Far away.", start=9),
    )
    assert found is not None
    assert found.expected_words == "… w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 …"
    assert found.got_words == ""


def test_saved_tokens_are_read_from_their_file(tmp_path: Path, document: Any, write_run: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[0, 8] += 1
    runs = [
        read_run(write_run(tmp_path / name, {"a": document(tokens=tokens)}, tokens={"a": tokens}))
        for name, tokens in (("one", some_tokens), ("other", changed))
    ]
    found = first_difference(runs[0]["a"], runs[1]["a"])
    assert found is not None
    assert (found.frame, found.stream) == (0, "codebook 7")


def test_without_saved_tokens_on_both_sides_the_text_is_compared(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[3, 5] += 1
    saved, bare = with_tokens(document, some_tokens), Recorded("call", document(tokens=changed))
    assert first_difference(saved, bare) is None
    changed[4, 0] += 1
    found = first_difference(saved, Recorded("call", document(tokens=changed)))
    assert found is not None
    assert (found.frame, found.stream, found.got) == (4, "text", changed[4, 0])


def test_tokens_of_another_answer_are_named_and_do_not_count(
    tmp_path: Path, document: Any, write_run: Any, some_tokens: Any
) -> None:
    foreign = some_tokens.copy()
    foreign[0, 1] += 1
    item = read_run(write_run(tmp_path, {"a": document()}, tokens={"a": foreign}))["a"]
    golden = with_tokens(document, some_tokens)
    assert first_difference(golden, item) is None
    assert foreign_tokens(item) == f"{tmp_path}/a.tokens.safetensors: {FOREIGN}"
    assert foreign_tokens(golden) is None
    whole = read_run(write_run(tmp_path / "whole", {"a": document()}, tokens={"a": some_tokens}))["a"]
    assert foreign_tokens(whole) is None


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_truncated, "not a file of tokens"),
        (lambda path: path.write_bytes(b""), "not a file of tokens"),
        (lambda path: path.write_bytes(b"\xff" * 100), "not a file of tokens"),
        (lambda path: save_file({"other": np.zeros((2, 9), np.int32)}, path), "not a file of tokens"),
        (
            lambda path: save_file({"tokens": np.zeros((2, 9), np.int64)}, path),
            r"int64 \[2, 9\], not int32 \[frames, 9\]",
        ),
        (lambda path: save_file({"tokens": np.zeros((2, 8), np.int32)}, path), r"int32 \[2, 8\]"),
        (lambda path: save_file({"tokens": np.zeros(9, np.int32)}, path), r"int32 \[9\]"),
    ],
)
def test_a_broken_file_of_tokens_is_named(
    spoil: Any, said: str, tmp_path: Path, document: Any, write_run: Any, some_tokens: Any
) -> None:
    item = read_run(write_run(tmp_path, {"a": document()}, tokens={"a": some_tokens}))["a"]
    spoil(tmp_path / "a.tokens.safetensors")
    with pytest.raises(UsageError, match=rf"a\.tokens\.safetensors: .*{said}"):
        first_difference(item, item)


def wav(path: Path, samples: Any, channels: int = 1) -> Path:
    soundfile.write(path, np.repeat(samples[:, None], channels, axis=1), 24_000, subtype="PCM_16")
    return path


@pytest.mark.parametrize("place", [0, 1, 65_535, 65_536, 100_000, 149_999])
def test_the_first_sample_that_differs_is_found(place: int, tmp_path: Path) -> None:
    samples = np.zeros(150_000, np.float32)
    one = wav(tmp_path / "one.wav", samples)
    samples[place:] = 0.5
    assert first_different_second(one, wav(tmp_path / "other.wav", samples)) == place / 24_000


@pytest.mark.parametrize("length", [0, 100, 65_536, 70_000])
def test_a_shorter_recording_differs_at_its_end(length: int, tmp_path: Path) -> None:
    one, other = (wav(tmp_path / f"{n}.wav", np.zeros(n, np.float32)) for n in (length, 140_000))
    assert first_different_second(one, other) == first_different_second(other, one) == length / 24_000
    assert first_different_second(one, one) is None


def test_another_number_of_channels_differs_at_once(tmp_path: Path) -> None:
    mono, stereo = (wav(tmp_path / f"{n}.wav", np.zeros(10, np.float32), n) for n in (1, 2))
    assert first_different_second(mono, stereo) == 0


def test_a_broken_recording_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF")
    with pytest.raises(UsageError, match=r"broken\.wav: can't be read"):
        first_different_second(broken, broken)
