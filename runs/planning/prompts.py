"""How much of a model's context prompts take, told without its weights."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from personaplex.core.audio.reading import frame_count
from personaplex.core.config import ModelConfig
from personaplex.core.engine.prompt_length import PromptLength
from personaplex.core.errors import PersonaplexError
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.weights import hub
from personaplex.core.weights.cached import snapshot
from personaplex.core.weights.model import locate
from personaplex.runs.models.known import known_model
from personaplex.runs.models.located import ModelOptions
from personaplex.runs.planning.planned import PlannedItem
from personaplex.samples import tiny
from personaplex.samples.catalog import model_folder, placed
from personaplex.voices.files import read_voice
from personaplex.voices.loading import is_stored, read_recording


def tokenizer_of(model: str) -> tuple[Tokenizer, ModelConfig]:
    """The tokenizer of a model, downloaded if need be, and its shapes; raises ModelError."""
    if os.path.isdir(folder := placed(model)):
        files = locate(folder)
        return Tokenizer(files.tokenizer), files.config
    config = known_model(model).config
    if model == tiny.NAME:
        return Tokenizer(model_folder(model) / config.files.tokenizer), config
    return Tokenizer(hub.fetch(model, config.files.tokenizer)), config


def tokenizer_here(options: ModelOptions) -> Tokenizer | None:
    """The tokenizer of a model, if it is on this machine."""
    if options.overrides.tokenizer is not None:
        return Tokenizer(options.overrides.tokenizer)
    if options.name == tiny.NAME or os.path.isdir(placed(options.name)):
        return tokenizer_of(options.name)[0]
    folder = snapshot(options.name, options.revision)
    path = None if folder is None else folder / known_model(options.name).config.files.tokenizer
    return Tokenizer(path) if path is not None and path.is_file() else None


def voice_frames(path: Path, dim: int | None) -> int:
    """The frames that a voice takes; raises VoiceError, also for a stored one of another width than `dim`."""
    if is_stored(path):
        return len(read_voice(path, dim).embeddings) + 1
    return frame_count(len(read_recording(path).samples))


def prompt_lengths(options: ModelOptions) -> Callable[[PlannedItem], PromptLength | None]:
    """How long an item's prompt is, as far as it can be told without a download: None without the tokenizer."""
    tokenizer = tokenizer_here(options)

    @cache
    def tokens(text: str) -> int:
        return 0 if tokenizer is None else len(tokenizer.prompt_ids(text))

    @cache
    def frames(voice: str) -> int | None:
        try:
            return voice_frames(Path(voice), None) if Path(voice).is_file() else None
        except PersonaplexError:
            return None  # told when it is loaded

    def length(item: PlannedItem) -> PromptLength | None:
        return None if tokenizer is None else PromptLength(tokens(item.text), frames(item.voice))

    return length
