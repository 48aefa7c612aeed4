"""Parity cases with their models loaded, one a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from personaplex.core.audio.reading import read
from personaplex.core.config import ModelConfig, read_config
from personaplex.core.engine.session import EmbeddedVoice, RecordedVoice
from personaplex.core.lm.model import LM
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn import fused
from personaplex.core.nn.products import pack
from personaplex.core.weights.filling import load_lm, load_mimi

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import BuildModel, ParityCase

CPU = torch.device("cpu")

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks at it when it is imported


@dataclass(frozen=True)
class LoadedCase:
    """A parity case, what is expected of it, and its model; everything is loaded when first asked for."""

    case: ParityCase
    folder: Path

    @cached_property
    def config(self) -> ModelConfig:
        """The model directory's config.json."""
        return read_config(self.folder / "config.json")

    @cached_property
    def lm(self) -> LM:
        """The language model in float32."""
        return self.lm_in(torch.float32)

    def lm_in(self, dtype: torch.dtype, int8: bool = False) -> LM:
        """The language model, loaded anew in another type, its temporal layers in `int8` or not."""
        lm = self.stored_lm(dtype, int8)
        pack(lm)
        return lm

    def stored_lm(self, dtype: torch.dtype, int8: bool = False) -> LM:
        """The language model as the checkpoint holds it, not packed."""
        return load_lm(self.folder / self.config.files.lm, self.config.lm, CPU, dtype, int8)

    @cached_property
    def mimi(self) -> Mimi:
        """The codec."""
        return load_mimi(self.folder / self.config.files.mimi, self.config.mimi, CPU)

    @cached_property
    def expected(self) -> dict[str, Tensor]:
        """What the reference computed."""
        return load_file(self.case.path / "expected.safetensors")

    @cached_property
    def user(self) -> Tensor:
        """The caller's samples [N]."""
        return torch.from_numpy(read(self.case.path / "user.wav").samples)

    @cached_property
    def text_tokens(self) -> list[int]:
        """The text prompt's ids."""
        return Tokenizer(self.folder / self.config.files.tokenizer).prompt_ids(self.case.facts["text_prompt"])

    @cached_property
    def recorded_voice(self) -> RecordedVoice:
        """The voice as the codes of its WAV."""
        return RecordedVoice(self.expected["voice_codes"].long())

    @cached_property
    def embedded_voice(self) -> EmbeddedVoice:
        """The voice as the reference saved it."""
        stored = torch.load(self.case.path / "voice.pt", weights_only=True)
        return EmbeddedVoice(stored["embeddings"][:, 0, 0], stored["cache"][0])


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Kernels that split their work between two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def fused_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's kernels in place of torch's on every device: interpreted where there is no GPU."""
    pytest.importorskip("triton")
    monkeypatch.setattr(fused, "is_used", lambda _: True)


LoadCase: TypeAlias = Callable[[str], LoadedCase]


@pytest.fixture(scope="session")
def load_case(build_model: BuildModel, parity_cases: dict[str, ParityCase]) -> LoadCase:
    """`load_case(name)`: the case and its model, loaded once."""
    loaded: dict[str, LoadedCase] = {}

    def load(name: str) -> LoadedCase:
        if name not in loaded:
            loaded[name] = LoadedCase(parity_cases[name], build_model(name))
        return loaded[name]

    return load


@pytest.fixture(scope="session", params=["short", "long", "no_text", "wide"])
def case(request: pytest.FixtureRequest, load_case: LoadCase) -> LoadedCase:
    """Every case in turn."""
    return load_case(request.param)


@pytest.fixture(scope="session")
def short(load_case: LoadCase) -> LoadedCase:
    """One case for tests that need any small model: dim 64, 3 layers, a context of 64."""
    return load_case("short")
