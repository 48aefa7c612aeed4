"""Checks that `offline` and `batch` share, of options and of calls."""

import re
import secrets

from personaplex.cli import options as o
from personaplex.core.corpus.manifest import CHANNEL
from personaplex.core.engine.call import live_calls
from personaplex.core.engine.job import Job
from personaplex.core.errors import InputError, UsageError
from personaplex.core.sampling.noise import MAX_SEED


def draw_seed() -> int:
    """A seed that is short to type again."""
    return secrets.randbelow(2**31)


def check_seed(seed: int) -> int:
    """`seed`, if the noise can take it; raises UsageError."""
    if seed > MAX_SEED:
        raise UsageError(f"--seed {seed} is too large", f"use one from 0 to {MAX_SEED}, or -1")
    return seed


def check_channel(channel: str) -> str:
    """`channel`, if it can name one; raises UsageError."""
    if not re.fullmatch(CHANNEL, channel):
        raise UsageError(f'--channel "{channel}" is unknown', "use mix, left, right, or a number from 0")
    return channel


def refuse_long(job: Job, context: int, align: o.AlignOption) -> None:
    """Raise InputError for a call that is longer than the context."""
    calls = live_calls(job.frames, align.value)
    if job.prompt.steps + calls > context:
        what = f"{job.input}: {job.prompt.steps} prompt and {calls} live frames exceed the context of {context}"
        raise InputError(what, "shorten the call, or allow it with --long-audio warn")
