"""Hugging Face's audio folder: `metadata.jsonl` with both sides' files, and a data card that says what it is."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from personaplex.core.weights.published import TERMS
from personaplex.exports.calls import Call
from personaplex.exports.splits import WHOLE
from personaplex.exports.writer import Row, Target, place_sides, write_lines
from personaplex.samples.catalog import model_names

_MOST_SEEDS = 20


class AudiofolderWriter:
    """`metadata.jsonl`; the columns `agent` and `caller` are made of `agent_file_name` and `caller_file_name`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rows: list[Row] = []

    def add(self, call: Call) -> None:
        """See `Writer`."""
        sides = place_sides(call, self._target)
        files = {f"{side}_file_name": self._target.relative(getattr(sides, side).path) for side in ("agent", "caller")}
        facts: dict[str, Any] = {**call.facts, "caller_id": call.group, "flags": ", ".join(call.facts["flags"])}
        del facts["caller"]  # the column of the caller's sound
        self._rows.append({**files, **facts})

    def close(self) -> None:
        """See `Writer`."""
        write_lines(self._target.folder / "metadata.jsonl", self._rows)


def write_card(folder: Path, splits: Mapping[str, list[Call]]) -> None:
    """Write `README.md`, the data card of what is in `folder`."""
    calls = [call for found in splits.values() for call in found]
    lines = ["---", "language:", "- en", "license: other", "license_name: see-the-section-on-licences"]
    lines += ["license_link: README.md", "tags:", "- audio", "- speech", "- full-duplex", "- synthetic"]
    lines += ["configs:", "- config_name: default", "  data_files:"]
    for name, found in splits.items():
        if found:
            pattern = "**" if name == WHOLE else f"{name}/**"
            lines += [f"  - split: {name or 'train'}", f'    path: "{pattern}"']
    lines += ["---", "", "# Calls answered by a full-duplex speech model", "", *_about(calls), ""]
    lines += ["## Made with", "", *_table(_made_with(calls)), ""]
    lines += ["## Splits", "", *_table(_sizes(splits)), "", *_licences(calls)]
    text = "\n".join(lines) + "\n"
    (folder / "README.md").write_bytes(text.encode("utf-8", "backslashreplace"))


def _about(calls: list[Call]) -> list[str]:
    hours = sum(call.duration for call in calls) / 3600
    return [
        f"{len(calls)} calls, {hours:.2f} hours. A row is a call: `caller` is the recording that the model heard,",
        "`agent` what it answered, of the same length and in step with it. `text` is what the agent says, by the",
        "model's own text stream; `caller_text` is what the caller says, where that was known. The agent's voice and",
        "words are synthetic.",
    ]


def _made_with(calls: list[Call]) -> dict[str, str]:
    seeds = sorted({call.made_with.seed for call in calls}, key=lambda seed: (len(seed), seed))
    more = f" and {len(seeds) - _MOST_SEEDS} more, in the column `seed`" if len(seeds) > _MOST_SEEDS else ""
    return {
        "model": _listed(f"`{call.made_with.model}`" for call in calls),
        "revision": _listed(f"`{call.made_with.revision}`" for call in calls if call.made_with.revision),
        "weights, SHA-256": _listed(f"`{call.made_with.weights_sha256}`" for call in calls),
        "voices": _listed(f"`{call.made_with.voice}`" for call in calls),
        "prompts": str(len({call.made_with.prompt for call in calls})),
        "seeds": ", ".join(seeds[:_MOST_SEEDS]) + more,
        "alignment": _listed(f"`{call.made_with.align}`" for call in calls if call.made_with.align),
        "tool": f"personaplex {version('personaplex')}",
    }


def _sizes(splits: Mapping[str, list[Call]]) -> dict[str, str]:
    return {
        name or "train": f"{len(found)} calls of {len({call.group for call in found})} callers"
        for name, found in splits.items()
    }


def _licences(calls: list[Call]) -> list[str]:
    lines = ["## Licences", ""]
    for name in sorted({call.made_with.model for call in calls}):
        lines.append(f"- Weights of `{name}`: {_licence(name)}.")
    lines.append(
        "- Callers' recordings, and the voices that the agent was prompted with: write down here whose they are,"
    )
    lines.append("  and what they may be used for. The tool does not know.")
    return lines


def _licence(model: str) -> str:
    if model in TERMS:
        return f"{TERMS[model].licence}, as its page says"
    return "they come with personaplex" if model in model_names() else "not known to the tool that wrote this"


def _table(rows: Mapping[str, str]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {value or 'not known'} |" for name, value in rows.items())]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
