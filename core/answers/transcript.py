"""Text tokens → words with times → the transcript document.

Frame i spans 0.08·i to 0.08·(i+1) seconds of the agent's audio and carries one text token.
"""

import hashlib
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from personaplex.core.audio.activity import SEGMENT_GAP
from personaplex.core.config import FRAME_RATE, seconds
from personaplex.core.lm.tokenizer import SPACE, Tokenizer

SCHEMA = "personaplex.transcript/1"
CONVERSATION = "personaplex.conversation/1"
LANGUAGE = "en"

_MARKS = string.punctuation + "…–—‘’“”«»¿¡"
_NUMBERS = re.compile(r"\[\n([\s\d.,eE+-]+)\]")
_WORD = re.compile(r"\{\n\s+(\"word\": .*,)\n\s+(\"start\": .*,)\n\s+(\"end\": .*,)\n\s+(\"frame\": .*)\n\s+\}")


@dataclass(frozen=True)
class Word:
    """One word, its seconds in the agent's audio, and the frame of its first piece."""

    word: str
    start: float
    end: float
    frame: int


@dataclass(frozen=True)
class Segment:
    """Words that follow each other with less than `SEGMENT_GAP` between them."""

    id: int
    speaker: str
    start: float
    end: float
    text: str
    words: list[Word]


@dataclass(frozen=True)
class PromptInfo:
    """What a call was prompted with: `tokens` of text, `steps` frames in all."""

    voice: str
    voice_sha256: str
    text: str
    tokens: int
    steps: int


@dataclass(frozen=True)
class SamplingInfo:
    """How tokens were drawn; `noise` names the layout and version of the noise."""

    seed: int
    temp_text: float
    top_k_text: int
    temp_audio: float
    top_k_audio: int
    greedy: bool
    top_p_text: float
    repetition_penalty: float
    no_repeat_ngram: int
    noise: str


@dataclass(frozen=True)
class ModelInfo:
    """Which weights ran, with which tokenizer."""

    name: str
    revision: str
    weights_sha256: str
    tokenizer_sha256: str


@dataclass(frozen=True)
class EngineInfo:
    """What they ran on.

    `device_kind` is a GPU's name, or a CPU's with the instruction set that torch uses of it. `quantize` is "int8" where
    the temporal layers' weights are, else None. Of a CPU, `products` tells how products are computed
    (`core.nn.products.ways`), and `rounding` is equal where two of them round alike. `threads` (of a CPU) and `slots`
    are None where the answer can't depend on them. `pace` is "batch" for a codec that runs over whole calls, "realtime"
    for one that runs frame by frame. `gpu` is `CudaInfo`, on CUDA alone, and the way of products in int8. `versions`
    are of the packages that the answer depends on.
    """

    device: str
    device_kind: str
    dtype: str
    quantize: Literal["int8"] | None
    products: str | None
    rounding: str | None
    threads: int | None
    slots: int | None
    pace: str
    gpu: Mapping[str, Any] | None
    versions: Mapping[str, str]


def words(
    text_tokens: Sequence[int] | NDArray[np.integer[Any]],
    tokenizer: Tokenizer,
    quiet: Sequence[bool] | NDArray[np.bool_],
) -> list[Word]:
    """The visible words of a text stream `[F]`, given which frames of the agent's audio are `quiet` `[F]`.

    Joined with single spaces they are the decoded stream with its whitespace collapsed. A word starts with the
    frame of its first piece and ends at the next word, the first quiet frame after its last piece or the end of
    the stream, whichever comes first. Raises `ModelError` for a token outside the vocabulary.
    """
    tokens = [int(token) for token in text_tokens]
    if len(tokens) != len(quiet):
        raise ValueError(f"{len(tokens)} text tokens but {len(quiet)} frames of audio")
    found = []
    for frames in _frames_by_word(tokens, tokenizer):
        text = _collapsed(tokenizer.decode([tokens[frame] for frame in frames]))
        if text:
            found.append((text, frames[0], frames[-1]))
    starts = [*(first for _, first, _ in found), len(tokens)]
    silences = np.append(np.flatnonzero(quiet), len(tokens))
    made = []
    for (text, first, last), following in zip(found, starts[1:], strict=True):
        silence = int(silences[np.searchsorted(silences, last, side="right")])
        made.append(Word(text, seconds(first), seconds(min(following, silence)), first))
    return made


def _frames_by_word(tokens: list[int], tokenizer: Tokenizer) -> list[list[int]]:
    """The frames of each word's pieces. Tokens that are not text neither belong to a word nor end one."""
    found: list[list[int]] = []
    apart = True
    for frame, token in enumerate(tokens):
        if not tokenizer.is_text(token):
            continue
        piece = tokenizer.piece(token)
        if apart or piece.startswith(SPACE):
            found.append([])
        found[-1].append(frame)
        # Byte pieces may spell whitespace, none of it longer than three bytes; what follows it is another word.
        # A piece of nothing but ▁ begins the word that follows.
        tail = tokenizer.decode([tokens[i] for i in found[-1][-3:]])
        apart = tail[-1:].isspace() and piece.strip(SPACE) != ""
    return found


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def plain_word(word: str) -> str:
    """A word to compare with others: casefolded, without the punctuation around it; empty if it is nothing else."""
    return word.casefold().strip(_MARKS)


def segments(spoken: Sequence[Word], speaker: str = "agent") -> list[Segment]:
    """A speaker's words in segments, a new one wherever `SEGMENT_GAP` seconds pass without a word."""
    runs: list[list[Word]] = []
    for word in spoken:
        if not runs or word.start - runs[-1][-1].end >= SEGMENT_GAP:
            runs.append([])
        runs[-1].append(word)
    return [Segment(number, speaker, run[0].start, run[-1].end, joined(run), run) for number, run in enumerate(runs)]


def joined(spoken: Sequence[Word]) -> str:
    """Words, with single spaces between them."""
    return " ".join(word.word for word in spoken)


def tokens_sha256(tokens: NDArray[np.integer[Any]]) -> str:
    """SHA-256, in hex, of `tokens` `[F, 9]` (text, agent codebooks 0-7) as little-endian int32, row by row."""
    return hashlib.sha256(np.ascontiguousarray(tokens, dtype="<i4").tobytes()).hexdigest()


def document(
    *,
    id: str,  # noqa: A002 - the field's name
    tokens: NDArray[np.integer[Any]],
    spoken: Sequence[Word],
    input: Mapping[str, Any],  # noqa: A002 - the field's name
    output: Mapping[str, Any],
    files: Mapping[str, str],
    activity: Mapping[str, Sequence[Sequence[float]]],
    flags: Sequence[Mapping[str, Any]],
    prompt: PromptInfo,
    sampling: SamplingInfo,
    model: ModelInfo,
    engine: EngineInfo,
    warnings: Sequence[str],
    volatile: Mapping[str, Any],
) -> dict[str, Any]:
    """The transcript document of one call, its fields in the schema's order.

    `tokens` is `[F, 9]` (text, agent codebooks 0-7) and `spoken` its `words`; `files` are the names of those
    that are written beside it, with their SHA-256; `activity` holds the stretches in which the caller and the agent
    speak, `flags` what is odd about the call. The document equals what is read from its JSON. Everything that may
    differ between two runs of the same call belongs in `volatile`.
    """
    return {
        "schema": SCHEMA,
        "id": id,
        "text": joined(spoken),
        "language": LANGUAGE,
        "segments": [asdict(segment) for segment in segments(spoken)],
        "frame_rate": FRAME_RATE,
        "text_tokens": tokens[:, 0].tolist(),
        "tokens_sha256": tokens_sha256(tokens),
        "input": dict(input),
        "output": dict(output),
        "files": dict(files),
        "activity": {side: [list(stretch) for stretch in stretches] for side, stretches in activity.items()},
        "flags": [dict(flag) for flag in flags],
        "prompt": asdict(prompt),
        "sampling": asdict(sampling),
        "model": asdict(model),
        "engine": asdict(engine),
        "warnings": list(warnings),
        "volatile": dict(volatile),
    }


def without_volatile(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a document that is the same on every run."""
    return {field: value for field, value in document.items() if field != "volatile"}


def dumps(document: Mapping[str, Any]) -> str:
    """A document as indented JSON, each word and list of numbers on one line; NaN and infinities are a `ValueError`."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # A JSON string holds no raw line break, so these match lists and words alone.
    text = _NUMBERS.sub(lambda match: f"[{_collapsed(match[1])}]", text)
    return _WORD.sub(r"{\1 \2 \3 \4}", text) + "\n"
