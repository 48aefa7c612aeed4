"""From goldens to the batch that runs their calls again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from personaplex.compare.goldens import MEND, SETTINGS
from personaplex.core.answers.outputs import OutputOptions
from personaplex.core.corpus.sources import Product
from personaplex.core.weights.model import Overrides
from personaplex.prompts.chosen import prompt_text
from personaplex.runs.choices import DEFAULT_SEED, Dtype, Existing, Quantize
from personaplex.runs.models.located import ModelOptions
from personaplex.runs.planning.request import BatchRequest, SourceOptions
from personaplex.runs.settings import CallSettings, parsed


@dataclass(frozen=True)
class Rerun:
    """How goldens are run again; what is None is as recorded. Outputs go to `output`, or are thrown away."""

    model: str | None
    revision: str | None
    overrides: Overrides
    device: str | None
    dtype: Dtype | None
    quantize: Quantize | None
    slots: int | None
    output: Path | None
    command: tuple[str, ...]


def batch_again(goldens: Path, manifest: Path, settings: Mapping[str, Any], rerun: Rerun, output: Path) -> BatchRequest:
    """The batch that runs goldens' calls into `output`; raises UsageError for settings that make no sense."""
    recorded = parsed(CallSettings, settings, goldens / SETTINGS, MEND)
    text = prompt_text()  # of rows that were added by hand
    if (rerun.device or recorded.engine.device) == "cpu" and recorded.engine.threads is not None:
        torch.set_num_threads(recorded.engine.threads)  # by which a CPU's kernels round
    return BatchRequest(
        source=SourceOptions(
            source=str(manifest),
            output=output,
            pattern=None,
            product=Product(),
            voice=None,
            voice_folder=None,
            text=text,
            channel="mix",
            seed=DEFAULT_SEED,
            mix=False,
        ),
        outputs=OutputOptions(recorded.output.subtype, recorded.output.rate, tokens=True),
        sampling=recorded.sampling,
        align=recorded.align,
        model=_model(goldens, recorded, rerun),
        graphs=True,
        slots=rerun.slots or recorded.engine.slots,
        shard=(1, 1),
        existing=Existing.overwrite,
        max_failures=None,
        retry_failed=False,
        long_audio=recorded.long_audio,
        command=rerun.command,
    )


def _model(goldens: Path, recorded: CallSettings, rerun: Rerun) -> ModelOptions:
    """The recorded model, unless another is asked for; recorded paths are relative to the goldens' folder."""
    options, overrides = recorded.model_options, rerun.overrides
    name, revision = rerun.model, rerun.revision
    if name is None:
        name = str(goldens / options.model) if (goldens / options.model).is_dir() else options.model
        revision = revision or options.revision
        files = (options.moshi_weight, options.mimi_weight, options.tokenizer)
        kept = (None if file is None else goldens / file for file in files)
        given = (overrides.lm, overrides.mimi, overrides.tokenizer)
        overrides = Overrides(*(new or old for new, old in zip(given, kept, strict=True)))
    device, dtype = rerun.device or recorded.engine.device, rerun.dtype or recorded.engine.dtype
    quantize = rerun.quantize or Quantize(recorded.engine.quantize or Quantize.none)
    return ModelOptions(name, revision, overrides, device, dtype, cpu_offload=False, quantize=quantize)
