"""From planned items to the engine's jobs: frames counted, voices loaded, prompts made into tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from personaplex.core.audio import reading
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Job, NamedVoice, Prompt
from personaplex.core.engine.prompt_length import PromptLength
from personaplex.core.errors import InputError, PersonaplexError
from personaplex.core.storage.spool import ahead_of
from personaplex.core.weights.model import Model
from personaplex.runs.choices import Alignment, LongAudio
from personaplex.runs.models.located import LocatedModel
from personaplex.runs.planning.plan import find_voices
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import CallOptions
from personaplex.voices.loading import load_voice

Failed = Callable[[PlannedItem, PersonaplexError], bool]
Refuse = Callable[[PlannedItem], None]


def make_jobs(
    items: Sequence[PlannedItem],
    voices: Mapping[str, Path],
    options: CallOptions,
    model: Model,
    refuse: Refuse,
    failed: Failed,
) -> list[Job]:
    """A job for every item whose input and voice can be read, but for what `refuse` refuses; `failed` is told of them.

    None at all once `failed` has said that these are too many. Raises UsageError if the prompt that the options give
    leaves nothing of the context to the calls.
    """
    loaded = {voice: voice_or_error(path, model) for voice, path in voices.items()}
    check_prompts(((item.text, item.voice) for item in items if is_of_options(item)), loaded, model)
    jobs = []
    for item in ahead_of(items, lambda item: item.item.stored):
        try:
            refuse(item)
            jobs.append(make_job(item, loaded[item.voice], options, model))
        except PersonaplexError as error:
            if failed(item, error):
                return []
    return jobs


def check_prompts(
    prompts: Iterable[tuple[str, str]], loaded: Mapping[str, NamedVoice | PersonaplexError], model: Model
) -> None:
    """Raise UsageError for one of these texts and voices that leaves nothing of the context to the calls."""
    for text, voice in dict.fromkeys(prompts):
        known = loaded[voice]
        if isinstance(known, NamedVoice):
            make_prompt(known, text, model)


def planned_frames(item: PlannedItem) -> int:
    """The most frames that an item's audio can take; raises InputError."""
    row = item.item.row
    return reading.planned_frames(item.item.audio, offset=row.offset, duration=row.duration)


def make_prompt(voice: NamedVoice, text: str, model: Model) -> Prompt:
    """A persona's prompt; raises UsageError for one that leaves nothing of the context to the call."""
    tokens = tuple(model.tokenizer.prompt_ids(text))
    PromptLength(len(tokens), voice.voice.frames).check(model.config.lm.context)
    return Prompt(voice, text.strip(), tokens)


def is_of_options(item: PlannedItem) -> bool:
    """Whether an item's prompt is the options' alone, so that what is wrong with it is wrong with the command."""
    row = item.item.row
    return all(own is None for own in (row.text_prompt, row.text_prompt_file, row.role, row.voice_prompt))


def refuse_long(job: Job, context: int, align: Alignment) -> None:
    """Raise InputError for a call that is longer than the context."""
    calls = live_calls(job.frames, align.value)
    if job.prompt.steps + calls > context:
        what = f"{job.input}: {job.prompt.steps} prompt and {calls} live frames exceed the context of {context}"
        raise InputError(what, "shorten the call, or allow it with --long-audio warn")


def voice_or_error(path: Path, model: Model) -> NamedVoice | PersonaplexError:
    """The voice in a file, or why it is none: it fails the calls that it is for, not the others."""
    try:
        return load_voice(path, model)
    except PersonaplexError as error:
        return error


def voices_of(
    names: Iterable[str], folder: Path | None, located: LocatedModel, model: Model
) -> dict[str, NamedVoice | PersonaplexError]:
    """Voices, each looked for in `folder` first, or why one is none."""
    paths, missing = find_voices(names, folder, (), located)
    return {**{name: voice_or_error(path, model) for name, path in paths.items()}, **missing}


def make_job(item: PlannedItem, voice: NamedVoice | PersonaplexError, options: CallOptions, model: Model) -> Job:
    """The job of an item; raises PersonaplexError where its input or voice can't be used."""
    row = item.item.row
    frames = planned_frames(item)
    if isinstance(voice, PersonaplexError):
        raise voice
    prompt = make_prompt(voice, item.text, model)
    job = Job(item.item.id, item.item.audio, prompt, item.seed, frames, item.channel, row.offset, row.duration)
    if options.long_audio is LongAudio.error:
        refuse_long(job, model.config.lm.context, options.align)
    return job
