"""Calls as a program describes them, and the settings that they share."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from personaplex.core.audio.sound import ARRAY, Sound
from personaplex.core.config import SAMPLE_RATE
from personaplex.core.corpus.items import Item, Refused, Source
from personaplex.core.corpus.listing import listed
from personaplex.core.corpus.manifest import Row
from personaplex.core.corpus.naming import unhidden
from personaplex.core.errors import UsageError
from personaplex.core.faults import field_faults, first_faults
from personaplex.core.sampling.draw import Sampling
from personaplex.core.sampling.noise import MAX_SEED
from personaplex.prompts.chosen import prompt_text
from personaplex.runs.choices import DEFAULT_SEED, Alignment, LongAudio
from personaplex.runs.planning.request import CallOptions, Defaults

StrPath = str | os.PathLike[str]

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, eq=False)
class Call:
    """One call: the caller's audio, and what it is answered with. What is None is as `Settings` has it.

    audio: a path or a URL, or samples of any real type: [N], or [N, channels]. Integers are taken as PCM, so that their
        type's full scale is ±1.
    sample_rate: samples a second of an array; a file says its own.
    id: names the call. By default a file's path below the current folder without its suffix, and `call-3` for the
        array at `calls[3]`.
    voice_prompt: a name of the catalogue, or the path of a voice or a recording.
    text_prompt: the agent's role in words, or else `role`: the name of one in the library, with its `fields`.
    seed: decides every draw, from 0 to 2⁶³ − 1.
    channel: "mix", "left", "right" or a number from "0".
    offset, duration: the part of the audio to use, in seconds; None goes to its end.
    """

    audio: StrPath | npt.NDArray[Any]
    sample_rate: int = SAMPLE_RATE
    id: str | None = None
    voice_prompt: StrPath | None = None
    text_prompt: str | None = None
    role: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    channel: str | None = None
    offset: float = 0.0
    duration: float | None = None


@dataclass(frozen=True)
class Settings:
    """How calls are answered, and what stands in where a call, or a manifest's row, is silent.

    voice_prompt, text_prompt, role, fields, channel: as in `Call`. Without a text and a role, the role is `teacher`.
    voice_prompt_dir: a folder in which voices are looked up by name.
    seed: the seed of `Model.answer`. In `Model.answers` each call's seed is made of this and the call's id.
    sampling: how tokens are drawn.
    align: "reference" lags a frame (80 ms), as moshi.offline does; "model" is the agent in its own time.
    long_audio: a call longer than the model's context gets a warning in its transcript ("warn"), or fails ("error").

    Raises UsageError for what makes no sense.
    """

    voice_prompt: StrPath | None = None
    voice_prompt_dir: StrPath | None = None
    text_prompt: str | None = None
    role: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    channel: str = "mix"
    seed: int = DEFAULT_SEED
    sampling: Sampling = field(default_factory=Sampling)
    align: Literal["reference", "model"] = "reference"
    long_audio: Literal["warn", "error"] = "warn"

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"seed {self.seed} is out of range", f"use one from 0 to {MAX_SEED}")
        chosen(Alignment, self.align, "--align")
        chosen(LongAudio, self.long_audio, "--long-audio")

    @property
    def defaults(self) -> Defaults:
        """What stands in where a call is silent; raises UsageError for a role that makes no sense."""
        return Defaults(
            voice=None if self.voice_prompt is None else os.fspath(self.voice_prompt),
            voice_folder=None if self.voice_prompt_dir is None else Path(self.voice_prompt_dir),
            text=prompt_text(self.text_prompt, None, self.role, self.fields),
            channel=self.channel,
            seed=self.seed,
        )

    def options(self, slots: int | None, graphs: bool) -> CallOptions:
        """How calls are run, `slots` at a time."""
        return CallOptions(self.sampling, Alignment(self.align), LongAudio(self.long_audio), graphs, slots)


def chosen(kind: type[Choice], name: str, option: str) -> Choice:
    """The choice called `name`; raises UsageError."""
    try:
        return kind(name)
    except ValueError as error:
        raise UsageError(f'{option} "{name}" is unknown', f"choose one of {', '.join(kind)}") from error


def calls_source(calls: Iterable[Call]) -> Source:
    """The calls as the source of a batch; one at fault is refused alone. Raises UsageError if there is none."""
    source = Source()
    for place, call in enumerate(calls):
        one = _listed(call, f"call-{place}", f"calls[{place}]", place)
        if isinstance(one, Refused):
            source.refused.append(one)
        else:
            source.items.append(one)
    if not source.items and not source.refused:
        raise UsageError("there are no calls to run", "give one or more")
    return source


def call_source(call: Call, seed: int) -> Source:
    """A single call, called by its file's stem, and with `seed` if it has none; raises UsageError if it is at fault."""
    name = call.id or ("call" if isinstance(call.audio, np.ndarray) else unhidden(Path(call.audio).stem))
    own = seed if call.seed is None else call.seed
    one = _listed(replace(call, id=name, seed=own), name, "the call", 0)
    if isinstance(one, Refused):
        raise one.error
    return Source([one])


def _listed(call: Call, name: str, where: str, place: int) -> Item | Refused:
    """A call as an item, if it can be run; an array without an id is called `name`."""
    try:
        return _item(call, name, where, place)
    except UsageError as error:
        return Refused(call.id or name, place, None, {}, UsageError(f"{where}: {error.what}", error.mend))


def _item(call: Call, name: str, where: str, place: int) -> Item | Refused:
    sound = Sound.of(call.audio, call.sample_rate) if isinstance(call.audio, np.ndarray) else None
    given = {
        "audio_filepath": ARRAY if isinstance(call.audio, np.ndarray) else os.fspath(call.audio),
        "id": call.id or (None if sound is None else name),
        "voice_prompt": None if call.voice_prompt is None else os.fspath(call.voice_prompt),
        "text_prompt": call.text_prompt,
        "role": call.role,
        "fields": dict(call.fields),
        "seed": call.seed,
        "channel": call.channel,
        "offset": call.offset,
        "duration": call.duration,
    }
    try:
        row = Row.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise UsageError(first_faults(field_faults(error)), "mend the call") from error
    item = listed(row, Path(), where, place)
    return replace(item, sound=sound) if isinstance(item, Item) else item
