"""A conversation's files: each side's WAV, both in stereo, tokens and one transcript, all or none of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from personaplex.core.answers.conversation_flags import conversation_flags
from personaplex.core.answers.flags import find_flags
from personaplex.core.answers.outputs import (
    Files,
    OutputOptions,
    Run,
    encode_tokens,
    prompt_info,
    sampling_info,
)
from personaplex.core.answers.ownership import place
from personaplex.core.answers.transcript import (
    CONVERSATION,
    LANGUAGE,
    Segment,
    dumps,
    joined,
    segments,
    tokens_sha256,
    words,
)
from personaplex.core.audio.activity import stretches
from personaplex.core.audio.levels import quiet_frames
from personaplex.core.audio.writing import encode_wav
from personaplex.core.config import FRAME_RATE, seconds
from personaplex.core.engine.talk import Talked
from personaplex.core.files import Staged, encoded

SPEAKERS = ("a", "b")


@dataclass(frozen=True)
class ConversationPaths:
    """Where a conversation's files go: `wav` has both sides, a on the left; the others stand beside it."""

    wav: Path
    json: Path

    def side(self, speaker: str) -> Path:
        """The WAV of a side alone."""
        return self.wav.with_name(f"{self.wav.stem}.{speaker}.wav")

    @property
    def tokens(self) -> Path:
        """Where `--save-tokens` goes."""
        return self.wav.with_name(f"{self.wav.stem}.tokens.safetensors")

    def all(self, options: OutputOptions) -> list[Path]:
        """Every file that `write_conversation` makes, the JSON last."""
        tokens = [self.tokens] if options.tokens else []
        return [self.wav, *map(self.side, SPEAKERS), *tokens, self.json]


@dataclass(frozen=True)
class Told:
    """What the transcript says beside what came of a conversation: what was asked for, and when it was started."""

    settings: Mapping[str, Any]
    warnings: tuple[str, ...]
    started: str


def write_conversation(talked: Talked, run: Run, paths: ConversationPaths, told: Told) -> dict[str, Any]:
    """Write a conversation's files, the JSON last, and return the transcript document.

    They take the places of an older one's only when all are whole. Raises InputError if a file can't be written; then
    none stays, and the older one does.
    """
    with Staged() as staged:
        document = _make(talked, run, paths, told, Files(paths.json.parent, staged.write))
        staged.write(paths.json, encoded(dumps(document)))
        place(staged, paths.json, clears=True)
    return document


def _make(talked: Talked, run: Run, paths: ConversationPaths, told: Told, files: Files) -> dict[str, Any]:
    def write_sound(path: Path, samples: Any) -> dict[str, Any]:
        wav, info = encode_wav(samples, rate=run.options.rate, subtype=run.options.subtype)
        files.write(path, wav)
        return {"path": path.name, "subtype": run.options.subtype, **asdict(info)}

    output = write_sound(paths.wav, np.stack(talked.samples, axis=1))
    sides, turns = {}, []
    for number, speaker in enumerate(SPEAKERS):
        block, spoken = _side(talked, run, number)
        sides[speaker] = block | {"output": write_sound(paths.side(speaker), talked.samples[number])}
        turns += spoken
    if run.options.tokens:
        files.write(paths.tokens, _tokens(talked))
    turns = [
        Segment(number, turn.speaker, turn.start, turn.end, turn.text, turn.words)
        for number, turn in enumerate(sorted(turns, key=lambda turn: (turn.start, turn.speaker)))
    ]
    duration = seconds(len(talked.tokens[0]))
    spent = sum(talked.seconds.values())
    return {
        "schema": CONVERSATION,
        "id": talked.conversation.id,
        "language": LANGUAGE,
        "segments": [asdict(turn) for turn in turns],
        "frame_rate": FRAME_RATE,
        "duration": duration,
        "end": talked.reason,
        "sides": sides,
        "settings": dict(told.settings),
        "output": output,
        "files": files.sha256,
        "flags": [asdict(flag) for flag in conversation_flags(turns, duration)],
        "model": asdict(run.model),
        "engine": asdict(run.engine),
        "warnings": list(told.warnings),
        "volatile": {
            "started": told.started,
            "seconds": round(spent, 3),
            "times_real_time": round(duration / spent, 2) if spent else None,
            "phases": {name: round(value, 3) for name, value in talked.seconds.items()},
        },
    }


def _side(talked: Talked, run: Run, number: int) -> tuple[dict[str, Any], list[Segment]]:
    """What the transcript says of a side, but for its WAV, and its turns."""
    side, tokens = talked.conversation.sides[number], talked.tokens[number]
    quiet = quiet_frames(talked.samples[number])
    spoken = words(tokens[:, 0], run.tokenizer, quiet)
    block = {
        "text": joined(spoken),
        "text_tokens": tokens[:, 0].tolist(),
        "tokens_sha256": tokens_sha256(tokens),
        "activity": [list(stretch) for stretch in stretches(~quiet)],
        "flags": [asdict(flag) for flag in find_flags(tokens[:, 0], spoken, quiet)],
        "prompt": asdict(prompt_info(side.prompt)),
        "sampling": asdict(sampling_info(side.seed, side.sampling)),
    }
    return block, segments(spoken, SPEAKERS[number])


def _tokens(talked: Talked) -> bytes:
    tensors = {}
    for number, speaker in enumerate(SPEAKERS):
        tensors[f"{speaker}.tokens"] = torch.from_numpy(talked.tokens[number])
        tensors[f"{speaker}.heard"] = torch.from_numpy(talked.heard[number])
    return encode_tokens(talked.conversation.id, tensors)
