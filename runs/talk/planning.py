"""From a manifest of conversations to all that each is run with, and what of it is done already.

All that can be wrong with a row is found here, before any model is loaded.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from personaplex.core.answers.conversation import SPEAKERS, ConversationPaths
from personaplex.core.answers.resume import agrees
from personaplex.core.answers.transcript import CONVERSATION
from personaplex.core.audio import reading
from personaplex.core.config import FRAME_RATE
from personaplex.core.corpus.conversations import Listed, SideRow, read_conversations
from personaplex.core.corpus.items import Refused
from personaplex.core.corpus.results import RESULTS, RUN
from personaplex.core.corpus.sources import derived_seed, in_shard
from personaplex.core.errors import PersonaplexError, UsageError, VoiceError
from personaplex.core.faults import shown
from personaplex.core.files import read_object
from personaplex.core.sampling.draw import Sampling
from personaplex.core.sampling.noise import LAYOUT
from personaplex.prompts.chosen import prompt_text
from personaplex.runs.choices import Existing
from personaplex.runs.models.located import LocatedModel
from personaplex.runs.planning.plan import find_voices, voice_of
from personaplex.runs.planning.todo import engine_block, voice_hashes
from personaplex.runs.talk.request import TalkRequest
from personaplex.voices.catalogue import find_local

GOODBYE_SECONDS = 2.0  # without a word after goodbye words


@dataclass(frozen=True)
class PlannedSide:
    """A persona; `voice` is a path, or a name of the catalogue for `find`."""

    voice: str
    text: str
    seed: int
    sampling: Sampling


@dataclass(frozen=True)
class PlannedTalk:
    """A conversation that can be run, for `frames` frames at most; `settings` is what its transcript says was asked."""

    listed: Listed
    sides: tuple[PlannedSide, PlannedSide]
    frames: int
    opening: Path | None
    settings: Mapping[str, Any]
    paths: ConversationPaths


@dataclass(frozen=True)
class PlannedTalks:
    """This share of a manifest's conversations, those done already with their transcripts, and all ids in order."""

    run: list[PlannedTalk]
    done: list[tuple[PlannedTalk, dict[str, Any]]]
    refused: list[Refused]
    order: list[str]
    warnings: list[str]


def plan_talks(request: TalkRequest) -> PlannedTalks:
    """Every conversation of the manifest; a row at fault is refused alone. Raises UsageError or VoiceError."""
    if request.output.exists() and not request.output.is_dir():
        raise UsageError(f"-o {request.output} is not a folder", "choose a folder; it is made if need be")
    if request.voice is not None:
        find_local(request.voice, request.voice_folder)
    found = read_conversations(request.source, request.repeat)
    planned, refused = [], list(found.refused)
    for one in found.listed:
        try:
            planned.append(_planned(one, request))
        except PersonaplexError as error:
            refused.append(one.refused(type(error)(f"{shown(one.where)}: {error.what}", error.mend)))
    if not planned and refused:
        raise UsageError(refused[0].error.what, refused[0].error.mend)
    everything: list[Listed | Refused] = [*found.listed, *found.refused]
    order = [one.id for one in sorted(everything, key=lambda one: one.place)]
    _check_owners(planned, request)
    mine = [one for one in planned if in_shard(one.listed, *request.shard)]
    return PlannedTalks(mine, [], [one for one in refused if in_shard(one, *request.shard)], order, found.warnings)


def _planned(one: Listed, request: TalkRequest) -> PlannedTalk:
    row = one.row
    a, b = (_side(one, speaker, side, request) for speaker, side in zip(SPEAKERS, row.sides, strict=True))
    opening = None if row.opening is None else one.folder / row.opening
    length = row.seconds or request.seconds
    settings = {
        "seconds": length,
        "begins": row.begins,
        "lead_in": row.lead_in,
        "opening": None if opening is None else {"path": row.opening, "sha256": _sha256(opening)},
        "line": None if row.line is None else row.line.model_dump(),
        "end_silence": request.end_silence,
        "ends_with_goodbye": request.ends_with_goodbye,
    }
    wav = request.output / f"{one.id}.wav"
    frames = max(1, round(length * FRAME_RATE))
    if opening is not None and reading.planned_frames(opening) > frames:
        what = f"opening {opening} is longer than the conversation, {length:g} s"
        raise UsageError(what, "give the row more seconds, or a shorter opening")
    return PlannedTalk(
        one, (a, b), frames, opening, settings, ConversationPaths(wav, wav.with_name(f"{wav.stem}.json"))
    )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"opening {path}: {error.strerror}", "check the path") from error


def _side(one: Listed, speaker: str, row: SideRow, request: TalkRequest) -> PlannedSide:
    own = {name: value for name, value in row.sampling.model_dump().items() if value is not None}
    try:
        text = _text(one, row)
        sampling = replace(request.sampling, **own)
        mend = "give it voice_prompt, or --voice-prompt for all"
        voice = voice_of(row.voice_prompt, one.folder, request.voice, request.voice_folder, mend)
    except PersonaplexError as error:
        raise type(error)(f"{speaker}: {error.what}", error.mend) from error
    run_seed = request.seed if one.row.seed is None else one.row.seed
    seed = derived_seed(run_seed, f"{one.id}:{speaker}") if row.seed is None else row.seed
    return PlannedSide(voice, text, seed, sampling)


def _text(one: Listed, row: SideRow) -> str:
    if row.text_prompt is None and row.text_prompt_file is None and row.role is None:
        raise UsageError("has no text_prompt and no role", "say who it is; an empty text_prompt is allowed")
    file = None if row.text_prompt_file is None else one.folder / row.text_prompt_file
    return prompt_text(row.text_prompt, file, row.role, row.fields)


def _check_owners(planned: Sequence[PlannedTalk], request: TalkRequest) -> None:
    """Raise UsageError for two conversations that would write to one file, and for one that would to the run's own."""
    owners = {request.output / name: "the run itself" for name in (RESULTS, RUN)}
    owners[Path(request.source)] = "the manifest"
    for one in planned:
        for path in one.paths.all(request.outputs):
            if path in owners:
                what = f"{shown(one.listed.where)} would write {shown(str(path))}, a file of {shown(owners[path])}"
                raise UsageError(what, "give it another id")
            owners[path] = one.listed.where


def locate_voices(
    planned: PlannedTalks, request: TalkRequest, model: LocatedModel
) -> tuple[PlannedTalks, dict[str, Path]]:
    """The plan without the conversations whose voices the model doesn't come with, and where the others lie.

    Raises VoiceError for a voice that is chosen for all.
    """
    names = (side.voice for one in planned.run for side in one.sides)
    paths, missing = find_voices(names, request.voice_folder, {request.voice}, model)
    run, refused = [], list(planned.refused)
    for one in planned.run:
        errors = [missing[side.voice] for side in one.sides if side.voice in missing]
        if errors:
            refused.append(one.listed.refused(VoiceError(f"{one.listed.where}: {errors[0].what}", errors[0].mend)))
        else:
            run.append(one)
    return replace(planned, run=run, refused=refused), paths


def leave_out_done(planned: PlannedTalks, request: TalkRequest, model: LocatedModel | None) -> PlannedTalks:
    """Without the conversations that are done; raises UsageError when outputs exist and that is not allowed.

    `model` None (a dry run) leaves out what only a model at hand can tell.
    """
    if request.existing is Existing.error:
        for one in planned.run:
            if one.paths.json.exists() or one.paths.wav.exists():
                mend = "choose another folder, or --existing skip or overwrite"
                raise UsageError(f"{one.listed.where}: its outputs are there: {one.paths.wav}", mend)
    if request.existing is not Existing.skip:
        return planned
    voice_sha256 = voice_hashes(request.voice_folder, model)
    block = cache(lambda: engine_block(request.model, request.slots, model))
    run, done = [], []
    for one in planned.run:
        document = read_object(one.paths.json)
        is_whole = document is not None and all(path.is_file() for path in one.paths.all(request.outputs))
        if document is not None and is_whole and agrees(document, _expected(one, request, voice_sha256) | block()):
            done.append((one, document))
        else:
            run.append(one)
    return replace(planned, run=run, done=done)


def _expected(one: PlannedTalk, request: TalkRequest, voice_sha256: Callable[[str], str | None]) -> dict[str, Any]:
    """What the transcript of a finished conversation says of it."""
    sides = {}
    for speaker, side in zip(SPEAKERS, one.sides, strict=True):
        digest = voice_sha256(side.voice)
        sides[speaker] = {
            "prompt": {"text": side.text.strip()} | ({} if digest is None else {"voice_sha256": digest}),
            "sampling": {"seed": side.seed, **asdict(side.sampling), "noise": LAYOUT},
        }
    return {
        "schema": CONVERSATION,
        "id": one.listed.id,
        "sides": sides,
        "settings": one.settings,
        "output": {"sample_rate": request.outputs.rate, "subtype": request.outputs.subtype},
    }
