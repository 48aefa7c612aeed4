"""Prompts, against columns written token by token from the design's rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.engine.session import EmbeddedVoice, RecordedVoice, prefill, prompt_steps, silence
from personaplex.core.errors import VoiceError
from personaplex.core.lm.model import LM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.core.conftest import LoadedCase

CONFIG = PERSONAPLEX_7B
SILENCE = [948, 243, 1178, 546, 1736, 1030, 1978, 2008]
SINE = [430, 1268, 381, 1611, 1095, 1495, 56, 472]
DELAYED = [2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16]

codes = st.lists(st.integers(0, 2047), min_size=8, max_size=8)
voices = st.lists(codes, min_size=1, max_size=7)
texts = st.lists(st.integers(0, 31_999), max_size=10)


def plain_frames(voice: Sequence[list[int]], text: Sequence[int]) -> list[list[int]]:
    """The frames of all prompt calls: text, the agent's eight codes, the user's eight."""
    quiet = [[3, *SILENCE, *SINE]] * 6
    return [
        *([3, *spoken, *SINE] for spoken in voice),
        *quiet,
        *([token, *SILENCE, *SINE] for token in text),
        *quiet,
    ]


def plain_column(frames: Sequence[Sequence[int]], p: int) -> list[int]:
    """Column p: of a delayed stream the token of the frame before; initial tokens at the start."""
    column = []
    for stream in range(17):
        delay = 1 if stream in DELAYED else 0
        initial = 32_000 if stream == 0 else 2048
        column.append(initial if p <= delay else frames[p - delay][stream])
    return column


@dataclass
class Recorder:
    """In the language model's place: an embedding is the column itself, and `prefill` is written down."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float64
    seen: dict[str, Tensor] = field(default_factory=dict)

    def embed(self, columns: Tensor) -> Tensor:
        return F.pad(columns.double(), (0, CONFIG.lm.dim - 17))

    def prefill(self, inputs: Tensor, column: Tensor, held: Tensor) -> None:
        self.seen = {"inputs": inputs[:, :17], "column": column, "held": held}


def prompt(voice: RecordedVoice | EmbeddedVoice, text: list[int]) -> dict[str, Any]:
    recorder = Recorder()
    persona = prefill(cast(LM, recorder), CONFIG, voice, text)
    return {"steps": persona.steps} | {name: tensor.tolist() for name, tensor in recorder.seen.items()}


def expected(voice: list[list[int]], text: list[int]) -> dict[str, Any]:
    """All columns but the newest have been read; the last frame's delayed tokens wait."""
    frames = plain_frames(voice, text)
    columns = [plain_column(frames, p) for p in range(len(frames))]
    held = [frames[-1][stream] if stream in DELAYED else -1 for stream in range(17)]
    return {"steps": len(frames), "inputs": columns[:-1], "column": columns[-1], "held": held}


def embedded(voice: list[list[int]]) -> EmbeddedVoice:
    """A voice as the reference saves it: inputs of calls 1 to V - 1, and four columns around the end, by p mod 4."""
    frames = plain_frames(voice, [])
    count = len(voice)
    # Column V is not whole when it is saved: its undelayed tokens are not known yet.
    last = [token if stream in DELAYED else -1 for stream, token in enumerate(plain_column(frames, count))]
    columns = torch.zeros(17, 4, dtype=torch.int64)
    for p in range(max(0, count - 3), count):
        columns[:, p % 4] = torch.tensor(plain_column(frames, p))
    columns[:, count % 4] = torch.tensor(last)
    inputs = torch.tensor([plain_column(frames, p) for p in range(count - 1)]).reshape(-1, 17)
    return EmbeddedVoice(Recorder().embed(inputs), columns)


@given(voices, texts)
def test_recorded_voice(voice: list[list[int]], text: list[int]) -> None:
    assert prompt(RecordedVoice(torch.tensor(voice)), text) == expected(voice, text)


@given(voices, texts)
def test_embedded_voice(voice: list[list[int]], text: list[int]) -> None:
    assert prompt(embedded(voice), text) == expected(voice, text)


@pytest.mark.parametrize("form", [embedded, lambda voice: RecordedVoice(torch.tensor(voice))])
@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("text", [[], [7], [7, 8, 9]])
def test_steps(form: Any, frames: int, text: list[int]) -> None:
    voice = form([[n] * 8 for n in range(frames)])
    assert voice.frames == frames
    assert prompt_steps(voice, text) == prompt(voice, text)["steps"] == frames + 6 + len(text) + 6


def test_a_short_prompt_written_out() -> None:
    """One voice frame, no text: calls 0 to 12."""
    found = prompt(RecordedVoice(torch.arange(8)[None]), [])
    initial = [2048] * 7
    assert found["inputs"][0] == [32_000] + [2048] * 16
    assert found["inputs"][1] == [3, 948, *initial, 430, *initial]
    assert found["inputs"][2] == [3, *SILENCE, *SINE]
    assert found["column"] == [3, *SILENCE, *SINE]
    assert found["held"] == [-1, -1, *SILENCE[1:], -1, *SINE[1:]]


def test_text_stands_between_the_silences() -> None:
    found = prompt(RecordedVoice(torch.zeros(4, 8, dtype=torch.int64)), [11, 12])
    assert [column[0] for column in found["inputs"]] == [32_000] + [3] * 9 + [11, 12] + [3] * 5


def test_a_voice_of_another_width() -> None:
    voice = EmbeddedVoice(torch.zeros(4, 64), torch.zeros(17, 4, dtype=torch.int64))
    with pytest.raises(VoiceError, match="dim 64; this model has dim 4096") as raised:
        prompt(voice, [])
    assert raised.value.mend


@pytest.mark.parametrize(("stream", "token"), [(0, 32_001), (0, -1), (1, 2049), (9, -1), (16, 2049)])
def test_a_voice_with_tokens_that_the_model_lacks(stream: int, token: int) -> None:
    voice = embedded([[7] * 8] * 4)
    voice.columns[stream, 0 if stream in DELAYED else 3] = token
    with pytest.raises(VoiceError, match=f"token {token} in stream {stream}") as raised:
        prompt(voice, [])
    assert raised.value.mend


def test_columns_that_are_not_read_may_hold_anything() -> None:
    voice = [[7] * 8] * 4
    odd = embedded(voice)
    odd.columns[:, 1:3] = -2
    odd.columns[[0, 1, 9], 0] = -2
    assert prompt(odd, [5]) == expected(voice, [5])


def test_silence() -> None:
    assert silence(CONFIG).tolist() == SILENCE


class TestOnAModel:
    """The state in which a live call starts."""

    def test_a_recorded_voice_equals_its_embeddings(self, short: LoadedCase) -> None:
        one = prefill(short.lm, short.config, short.recorded_voice, short.text_tokens)
        other = prefill(short.lm, short.config, short.embedded_voice, short.text_tokens)
        assert one.steps == other.steps
        assert one.state.cache.filled == other.state.cache.filled == [one.steps - 1]
        assert torch.equal(one.state.column, other.state.column)
        assert torch.equal(one.state.held, other.state.held)
        torch.testing.assert_close(one.state.cache.keys, other.state.cache.keys)
        torch.testing.assert_close(one.state.cache.values, other.state.cache.values)

    def test_embeddings_of_another_type_than_the_model(self, short: LoadedCase) -> None:
        lm = short.lm_in(torch.bfloat16)
        assert short.embedded_voice.embeddings.dtype == torch.float32
        one, other = (prefill(lm, short.config, v, []) for v in (short.recorded_voice, short.embedded_voice))
        assert one.state.cache.keys.dtype == other.state.cache.keys.dtype == torch.bfloat16
        assert (one.state.cache.keys - other.state.cache.keys).abs().mean() < 0.05

    @pytest.mark.parametrize("text", [[], [5, 6]])
    def test_the_shortest_voice(self, short: LoadedCase, text: list[int]) -> None:
        """V = 1: a `.pt` without a single embedding."""
        columns = torch.full((17, 4), 2048)
        columns[0] = short.config.lm.text_vocab
        columns[DELAYED, 1] = torch.tensor([*range(101, 108), *SINE[1:]])
        no_embeddings = EmbeddedVoice(torch.zeros(0, short.config.lm.dim), columns)
        one = prefill(short.lm, short.config, RecordedVoice(torch.arange(100, 108)[None]), text)
        other = prefill(short.lm, short.config, no_embeddings, text)
        assert one.steps == other.steps == 13 + len(text)
        assert torch.equal(one.state.cache.keys, other.state.cache.keys)
        assert torch.equal(one.state.column, other.state.column)
        assert torch.equal(one.state.held, other.state.held)

    def test_the_cache_is_no_longer_than_the_window(self, load_case: Any) -> None:
        case = load_case("long")
        state = prefill(case.lm, case.config, case.recorded_voice, case.text_tokens).state
        assert state.cache.filled == state.cache.length.tolist() == [109]
        assert state.cache.slots == case.config.lm.window == 63
