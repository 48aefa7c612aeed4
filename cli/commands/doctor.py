"""`personaplex doctor`: what on this machine would fail, and how to mend it."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from personaplex.cli import options as o
from personaplex.cli.console import result
from personaplex.core.errors import PersonaplexError
from personaplex.core.machine.device_errors import told_device_error
from personaplex.voices.catalogue import VARIABLE

if TYPE_CHECKING:
    from personaplex.core.machine.health import Finding

EXAMPLE = "Example: personaplex doctor --json"


def doctor(
    online: Annotated[
        bool, o.option("--online", panel=o.GENERAL, help="Ask the hub whether the model may be fetched.")
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Look over versions, devices, memory, caches and tokens, and run a second of `tiny`.

    A warning costs speed or comfort; a problem keeps calls from running, and the command exits 3.
    """
    findings = []
    for finding in _findings(online):
        findings.append(finding)
        if not as_json:
            result(_line(finding))
    healthy = all(finding.state != "problem" for finding in findings)
    if as_json:
        result(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2))
    if not healthy:
        raise typer.Exit(PersonaplexError.exit_code)


def _line(finding: "Finding") -> str:
    line = f"{finding.state:<7}  {finding.name:<15}  {finding.what}"
    return f"{line} -> {finding.mend}" if finding.mend else line


def _findings(online: bool) -> Iterator["Finding"]:
    from personaplex.core.machine import health

    yield from health.versions()
    yield from health.processor()
    yield from health.devices()
    yield from health.audio_formats()
    yield from health.caches()
    yield from health.published_model(online)
    yield from _voices_folder()
    yield _run()


def _voices_folder() -> Iterator["Finding"]:
    from personaplex.core.machine.health import Finding

    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    if Path(folder).expanduser().is_dir():
        yield Finding("voices", "ok", f"{VARIABLE} is {folder}")
    else:
        mend = f"create it, or set {VARIABLE} to another"
        yield Finding("voices", "problem", f"{VARIABLE} is {folder}, which is no folder", mend)


def _run() -> "Finding":
    """A second of a sample call through `tiny`, on the device that a call would take."""
    from personaplex.core.machine.health import Finding
    from personaplex.runs.models.located import pick_device

    start = time.perf_counter()
    device = pick_device("auto")
    try:
        _answer(device.type)
    except Exception as error:  # whatever is broken on this machine is what is looked for
        told = told_device_error(error)
        if told is not None:
            return Finding("tiny", "problem", f"a second of it fails on {device}: {told.what}", told.mend)
        what = f"a second of it fails on {device}: {type(error).__name__}: {error}".partition("\n")[0]
        return Finding("tiny", "problem", what, "try --device cpu; install torch and personaplex anew")
    return Finding(
        "tiny", "ok", f"a second of it took {time.perf_counter() - start:.1f} s on {device}, loading included"
    )


def _answer(device: str) -> None:
    import torch

    from personaplex.core.audio.reading import planned_frames
    from personaplex.core.engine.batch import Batch, Plan
    from personaplex.core.engine.job import Failure, Job, Prompt
    from personaplex.core.nn.products import pack
    from personaplex.samples import tiny
    from personaplex.samples.catalog import call_paths
    from personaplex.voices.loading import load_voice

    call = call_paths()[0]
    model = tiny.load(torch.device(device))
    pack(model.lm)
    prompt = Prompt(load_voice(call, model), "", ())
    job = Job("doctor", call, prompt, 1, planned_frames(call, duration=1.0), duration=1.0)
    (outcome,) = Batch(model, Plan(1), lambda response: response.samples).run([job])
    if isinstance(outcome, Failure):
        raise outcome.error
