"""Conversations as their caller describes them."""

from dataclasses import dataclass
from pathlib import Path

from personaplex.core.answers.outputs import OutputOptions
from personaplex.core.sampling.draw import Sampling
from personaplex.runs.choices import Existing
from personaplex.runs.models.located import ModelOptions


@dataclass(frozen=True)
class TalkRequest:
    """What conversations to run, how, and what of them.

    source: a manifest of conversations, each of which is run `repeat` times.
    voice, sampling, seconds: what stands in where a row is silent.
    end_silence: seconds without a word that end a conversation; 0 never does.
    ends_with_goodbye: whether goodbye words end it soon.
    slots: two for each conversation at a time; None takes as many as fit into memory.
    shard: (i, n) takes the i-th of n stable shares, from 1.
    max_failures: stop when more than that have failed; None never does.
    command: the command line that asked for it, for the record.
    """

    source: str
    output: Path
    repeat: int
    seconds: float
    voice: str | None
    voice_folder: Path | None
    sampling: Sampling
    seed: int
    end_silence: float
    ends_with_goodbye: bool
    outputs: OutputOptions
    model: ModelOptions
    graphs: bool
    slots: int | None
    shard: tuple[int, int]
    existing: Existing
    max_failures: int | None
    command: tuple[str, ...]
