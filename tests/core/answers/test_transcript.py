import hashlib
import io
import json
from collections.abc import Callable
from itertools import chain, pairwise, zip_longest
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.answers.transcript import (
    EngineInfo,
    ModelInfo,
    PromptInfo,
    SamplingInfo,
    Word,
    document,
    dumps,
    segments,
    tokens_sha256,
    without_volatile,
    words,
)
from personaplex.core.audio.levels import QUIET_DBFS, quiet_frames
from personaplex.core.lm.tokenizer import Tokenizer

PAD, EPAD = 3, 0
PARITY = Tokenizer(Path(__file__).parents[2] / "data" / "tokenizer.model")
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())


def ids(tokenizer: Tokenizer, *pieces: str | int) -> list[int]:
    """Ids by piece; numbers stand for themselves."""
    by_piece = {tokenizer.piece(token): token for token in range(tokenizer.vocab_size)}
    return [piece if isinstance(piece, int) else by_piece[piece] for piece in pieces]


def spell(text: str) -> list[str]:
    """The byte pieces of `text`."""
    return [f"<0x{byte:02X}>" for byte in text.encode()]


def said(tokens: list[int], tokenizer: Tokenizer = PARITY, quiet: list[int] | None = None) -> list[Word]:
    return words(tokens, tokenizer, [frame in (quiet or []) for frame in range(len(tokens))])


@pytest.fixture(scope="module", params=["plain", "keeps spaces", "no dummy prefix"])
def byte_tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A small vocabulary with byte pieces, under each of the rules for spaces at the start of a text."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["an agent answers the call and says the day", "the caller asks again", "so it ends"]),
        model_writer=model,
        model_type="bpe",
        vocab_size=300,
        byte_fallback=True,
        pad_id=3,
        remove_extra_whitespaces=request.param == "plain",
        add_dummy_prefix=request.param != "no dummy prefix",
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("model") / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return Tokenizer(path)


def test_a_word_starts_at_its_first_piece_and_ends_at_the_next_word() -> None:
    tokens = ids(PARITY, PAD, EPAD, "▁an", "s", PAD, "w", "er", ".", PAD, EPAD, "▁day", PAD)
    assert said(tokens) == [Word("answer.", 0.16, 0.8, 2), Word("day", 0.8, 0.96, 10)]


def test_a_word_ends_where_the_audio_falls_quiet_after_its_last_piece() -> None:
    tokens = ids(PARITY, PAD, "▁an", "s", PAD, PAD, PAD, "▁day", PAD, PAD, PAD)
    quiet = [0, 1, 2, 4, 5, 6, 8]
    assert said(tokens, quiet=quiet) == [Word("ans", 0.08, 0.32, 1), Word("day", 0.48, 0.64, 6)]


def test_a_word_lasts_to_the_end_of_its_last_piece_though_all_is_quiet() -> None:
    tokens = ids(PARITY, "▁an", PAD, "s", PAD, "▁day")
    assert said(tokens, quiet=list(range(5))) == [Word("ans", 0.0, 0.24, 0), Word("day", 0.32, 0.4, 4)]


def test_text_without_a_space_starts_a_word_at_the_start_alone() -> None:
    tokens = ids(PARITY, PAD, "na", EPAD, "ch", PAD, PAD, EPAD, "e", "▁to")
    assert [(word.word, word.frame) for word in said(tokens)] == [("nache", 1), ("to", 8)]


def test_a_lone_space_starts_the_word_that_follows_it() -> None:
    tokens = ids(PARITY, "▁", PAD, "na", "▁", EPAD, "ch", "▁", "▁", "▁to", "▁", PAD)
    assert [(word.word, word.frame) for word in said(tokens)] == [("na", 0), ("ch", 3), ("to", 8)]


def test_control_tokens_belong_to_no_word() -> None:
    tokens = ids(PARITY, "<s>", "na", "</s>", "ch", "</s>", PAD)
    assert said(tokens, quiet=[4]) == [Word("nach", 0.08, 0.32, 1)]


def test_nothing_said() -> None:
    assert said([]) == []
    assert said(ids(PARITY, PAD, EPAD, "▁", "<s>", "▁", PAD)) == []


def test_byte_pieces_make_one_character(byte_tokenizer: Tokenizer) -> None:
    cafe = ids(byte_tokenizer, "▁a", *spell("é")[:1], PAD, *spell("é")[1:], *spell("😀"), "▁the")
    assert [(word.word, word.frame) for word in said(cafe, byte_tokenizer)] == [("aé😀", 0), ("the", 8)]


@pytest.mark.parametrize("space", SPACES, ids=ascii)
def test_whitespace_spelled_in_bytes_parts_words(byte_tokenizer: Tokenizer, space: str) -> None:
    tokens = ids(byte_tokenizer, "▁a", *spell(space), "e", PAD)
    end = len(tokens) - 2
    assert [(word.word, word.frame) for word in said(tokens, byte_tokenizer)] == [("a", 0), ("e", end)]


def test_a_lone_space_before_bytes(byte_tokenizer: Tokenizer) -> None:
    tokens = ids(byte_tokenizer, "▁", "s", "▁", PAD, *spell("é"), "▁", *spell("\n"), "e")
    assert [(word.word, word.frame) for word in said(tokens, byte_tokenizer)] == [("s", 0), ("é", 2), ("e", 8)]


def test_audio_and_text_must_match() -> None:
    with pytest.raises(ValueError, match="3 text tokens but 2 frames"):
        words([3, 3, 3], PARITY, [True, True])


def check(tokens: list[int], quiet: list[bool], tokenizer: Tokenizer) -> None:
    spoken = words(np.array(tokens, dtype=np.int32), tokenizer, np.array(quiet, dtype=bool))
    assert " ".join(word.word for word in spoken) == " ".join(tokenizer.decode(tokens).split())
    assert not any(set(word.word) & set(SPACES) for word in spoken)
    for word, following in zip_longest(spoken, spoken[1:]):
        limit = following.start if following else 0.08 * len(tokens) + 1e-9
        assert word.start == round(word.frame * 0.08, 2) < word.end <= limit
        assert tokenizer.is_text(tokens[word.frame])
    joined = segments(spoken)
    assert [word for segment in joined for word in segment.words] == list(spoken)
    assert all(after.start - before.end >= 0.6 for before, after in pairwise(joined))


frames = st.lists(st.tuples(st.integers(0, 182) | st.sampled_from([0, 3, 4]), st.booleans()))


@given(frames)
def test_words_join_to_the_decoded_text(frames: list[tuple[int, bool]]) -> None:
    check([token for token, _ in frames], [quiet for _, quiet in frames], PARITY)


@given(st.data())
def test_words_join_to_the_decoded_text_with_bytes(byte_tokenizer: Tokenizer, data: st.DataObject) -> None:
    chunks = [[piece] for piece in (PAD, EPAD, "<s>", "▁", "▁the", "a", "s")]
    chunks += [spell(text) for text in ("é", "▁", "\n", " ", "\x85", "\u2003", "😀")]
    byte = st.integers(0, 255).map(lambda value: [f"<0x{value:02X}>"])
    pieces = data.draw(st.lists(st.sampled_from(chunks) | byte))
    tokens = ids(byte_tokenizer, *chain(*pieces))
    check(tokens, data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens))), byte_tokenizer)


def sine(dbfs: float, length: int) -> np.ndarray:
    """A 480 Hz sine (whole periods a frame) with an RMS of `dbfs`."""
    wave = np.sqrt(2) * 10 ** (dbfs / 20) * np.sin(np.arange(length) * 2 * np.pi * 480 / 24_000)
    return wave.astype(np.float32)


def test_quiet_frames() -> None:
    loud, soft = sine(QUIET_DBFS + 0.1, 1920), sine(QUIET_DBFS - 0.1, 1920)
    samples = np.concatenate([loud, soft, np.zeros(1920, np.float32), loud])
    assert quiet_frames(samples).tolist() == [False, True, True, False]


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 1), (1919, 1), (1920, 1), (1921, 2), (2000, 2)])
def test_a_partial_frame_is_judged_by_its_own_samples(length: int, count: int) -> None:
    level = 10 ** ((QUIET_DBFS + 0.1) / 20)
    quiet = quiet_frames(np.full(length, level, np.float32))
    assert quiet.dtype == np.bool_
    assert quiet.tolist() == [False] * count


def test_segments_part_at_six_tenths_of_a_second() -> None:
    one, two = Word("Good", 0.0, 0.4, 0), Word("day.", 0.96, 1.2, 12)
    three, four = Word("Bye", 1.84, 2.0, 23), Word("now", 2.0, 2.08, 25)
    first, second = segments([one, two, three, four])
    assert (first.id, first.speaker, first.start, first.end, first.text) == (0, "agent", 0.0, 1.2, "Good day.")
    assert (second.id, second.start, second.end, second.text) == (1, 1.84, 2.08, "Bye now")
    assert (first.words, second.words) == ([one, two], [three, four])
    assert segments([]) == []


def test_tokens_sha256_is_of_little_endian_int32_rows() -> None:
    tokens = np.arange(18).reshape(2, 9)
    raw = b"".join(value.to_bytes(4, "little") for value in range(18))
    assert tokens_sha256(tokens) == hashlib.sha256(raw).hexdigest()
    for view in (tokens.astype(">i8"), np.asfortranarray(tokens.astype(np.int32))):
        assert tokens_sha256(view) == tokens_sha256(tokens)


@pytest.fixture
def make() -> Callable[..., dict[str, object]]:
    tokens = np.full((8, 9), 5)
    tokens[:, 0] = ids(PARITY, PAD, "▁an", "s", PAD, EPAD, "▁day", ".", PAD)

    def call(**changes: object) -> dict[str, object]:
        fields = {
            "id": "a/1",
            "tokens": tokens,
            "spoken": words(tokens[:, 0], PARITY, np.zeros(8, bool)),
            "input": {"path": "caller.wav", "duration": 0.64},
            "output": {"path": "agent.wav", "peak": 0.71, "align": "reference"},
            "files": {"agent.wav": "gh"},
            "activity": {"caller": [], "agent": [[0.0, 0.64]]},
            "flags": [],
            "prompt": PromptInfo("NATM1", "ab", 'Say "é".', 34, 131),
            "sampling": SamplingInfo(42, 0.7, 25, 0.8, 250, False, 1.0, 1.0, 0, "philox/1"),
            "model": ModelInfo("tiny", "main", "cd", "ef"),
            "engine": EngineInfo(
                "cpu", "AVX2", "float32", None, "plain/1", "ab", 2, None, "batch", None, {"numpy": "2"}
            ),
            "warnings": ["[ 1, 2 ]"],
            "volatile": {"seconds": 2.4},
        }
        return document(**(fields | changes))

    return call


def test_document_has_the_fields_of_the_schema_in_order(make: Callable[..., dict[str, object]]) -> None:
    made = make()
    fields = "schema id text language segments frame_rate text_tokens tokens_sha256 input output files activity flags"
    assert " ".join(made) == f"{fields} prompt sampling model engine warnings volatile"
    assert (made["schema"], made["language"], made["frame_rate"]) == ("personaplex.transcript/1", "en", 12.5)
    assert made["text"] == "ans day."
    assert made["text_tokens"] == ids(PARITY, PAD, "▁an", "s", PAD, EPAD, "▁day", ".", PAD)
    (segment,) = json.loads(dumps(made))["segments"]
    assert list(segment) == ["id", "speaker", "start", "end", "text", "words"]
    assert segment["words"][0] == {"word": "ans", "start": 0.08, "end": 0.4, "frame": 1}
    assert made["prompt"] == {"voice": "NATM1", "voice_sha256": "ab", "text": 'Say "é".', "tokens": 34, "steps": 131}
    fields = (
        "seed temp_text top_k_text temp_audio top_k_audio greedy top_p_text repetition_penalty no_repeat_ngram noise"
    )
    assert " ".join(made["sampling"]) == fields
    assert list(made["model"]) == ["name", "revision", "weights_sha256", "tokenizer_sha256"]
    engine = "device device_kind dtype quantize products rounding threads slots pace gpu versions"
    assert " ".join(made["engine"]) == engine


def test_without_volatile_is_the_same_on_every_run(make: Callable[..., dict[str, object]]) -> None:
    one, two = make(), make(volatile={"seconds": 9.9})
    assert one != two
    assert without_volatile(one) == without_volatile(two)
    assert "volatile" in one


def test_dumps(make: Callable[..., dict[str, object]]) -> None:
    made = make()
    text = dumps(made)
    assert json.loads(text) == made
    assert text.startswith('{\n  "schema": "personaplex.transcript/1",\n')
    assert f'\n  "text_tokens": {made["text_tokens"]},\n' in text
    assert '\n        {"word": "ans", "start": 0.08, "end": 0.4, "frame": 1},\n' in text
    assert "é" in text
    assert text.endswith("}\n")


@given(st.recursive(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_dumps_keeps_every_value(value: object) -> None:
    assert json.loads(dumps({"warnings": value})) == {"warnings": value}


@pytest.mark.parametrize("level", [float("nan"), float("-inf")])
def test_dumps_refuses_what_json_cannot_hold(make: Callable[..., dict[str, object]], level: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(make(output={"rms_dbfs": level}))
