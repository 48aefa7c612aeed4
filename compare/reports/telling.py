"""How the reports say what was found: the first difference, what the answers depend on, an item's details."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from personaplex.compare.identity import IdentityCount
from personaplex.compare.verdicts import Agreement, FirstDifference, IdentityDifference, ItemComparison

if TYPE_CHECKING:
    from personaplex.compare.agreement import RunAgreement  # which imports numpy; the help needs none


def plural(count: int, noun: str) -> str:
    """Such as "1 item" and "2 items"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(difference: FirstDifference) -> str:
    """Where answers part: `frame 12, 0.96 s, codebook 0`."""
    return f"frame {difference.frame}, {difference.second:.2f} s, {difference.stream}"


def change(difference: FirstDifference) -> str:
    """The two tokens: `1023 → 77`; an answer that has ended says so."""
    expected, got = ("end" if token is None else str(token) for token in (difference.expected, difference.got))
    return f"{expected} → {got}"


def values(difference: IdentityDifference | IdentityCount) -> tuple[str, str]:
    """What was expected and what was got: text as it is, nothing as "none", anything else as JSON.

    A count without either varies from item to item.
    """
    if difference.expected is None and difference.got is None:
        return "varies", "varies"
    return _shown(difference.expected), _shown(difference.got)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def alike(agreement: Agreement) -> str:
    """What an item's answers have in common, in a line: `text token 96.2 %, speech 98.4 %, 3.1 % WER`."""
    told = [f"text token {_percent(agreement.text)}", f"speech {_percent(agreement.speech)}"]
    return ", ".join([*told, f"{100 * agreement.word_error_rate:.3g} % WER"])


def run_alike(found: "RunAgreement") -> dict[str, str]:
    """What two runs have in common, a phrase for each thing that is measured."""
    shared = found.agreement
    told = {
        "text token": f"the same in {_percent(shared.text)} of {plural(shared.text_frames, 'frame')}",
        "speech": f"both agents speak or both are silent in {_percent(shared.speech)} of "
        f"{plural(shared.speech_frames, 'frame')}",
        "word error rate": f"{100 * shared.word_error_rate:.3g} % of {plural(shared.words, 'word')}",
    }
    if not shared.speech_frames:
        told["speech"] = "not known: the transcripts were made by an older version"
    if found.differing:
        told["first difference"] = f"in {found.differing} of {plural(found.items, 'item')}{_where(found)}"
    return told


def _where(found: "RunAgreement") -> str:
    unknown = found.differing - found.located
    ending = f"; {unknown} not located, for want of tokens: run both with --save-tokens" if unknown else ""
    if found.first_item is None:
        return ending
    earliest = f"earliest {found.first_second:.2f} s in ({found.first_item})"
    return f", {found.median_second:.2f} s in by the median, {earliest}{ending}"


def _percent(share: float | None) -> str:
    """A share as the reader takes it: 100 % are all frames, not nearly all."""
    if share is None:
        return "not known"
    return f"{100 * share if share == 1 else min(100 * share, 99.9):.1f} %"


def details(item: ItemComparison) -> Iterator[str]:
    """An item's findings, a line each: failures, verdicts, the first difference with its words, identities."""
    for name, side in (("expected", item.expected), ("got", item.got)):
        if side and side.failure:
            yield f"{name}: failed: {side.failure}"
    for verdict in item.verdicts:
        yield ": ".join(filter(None, (verdict.rung, verdict.outcome, verdict.detail)))
    if item.difference:
        yield f"first difference: {place(item.difference)}: {change(item.difference)}"
        yield f"  expected words: {item.difference.expected_words}"
        yield f"  got words:      {item.difference.got_words}"
    if item.agreement:
        yield f"in common: {alike(item.agreement)}"
    for identity in item.identity:
        yield f"not alike: {identity.name}: {' → '.join(values(identity))}"
    for expectation in item.expectations:
        if not expectation.passed:
            yield f"not met: {expectation.name}: {expectation.detail}"
