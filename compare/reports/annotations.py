"""A comparison as GitHub's workflow commands, which a CI run shows beside its log."""

from personaplex.compare.identity import identity_summary
from personaplex.compare.reports.telling import plural, values
from personaplex.compare.verdicts import Comparison, ItemComparison

TITLE = "personaplex compare"


def annotations(comparison: Comparison, limit: int = 10) -> list[str]:
    """Workflow commands, a line each: an error for each of the first `limit` items that fail, a notice that counts the
    rest, and a warning if what the answers' bits depend on is not the same.

    GitHub shows ten errors of a step.
    """
    failing = [item for item in comparison.items if item.fails]
    lines = [_command("error", f"{TITLE}: {item.id}", _message(item)) for item in failing[:limit]]
    rest = len(failing) - len(lines)
    if rest:
        told = f"{plural(rest, 'more item')} of {len(comparison.items)} failed beyond the {len(lines)} shown"
        lines.append(_command("notice", TITLE, told))
    counts = identity_summary(comparison)
    if counts:
        rows = [f"{count.name}: {' → '.join(values(count))} ({plural(count.items, 'item')})" for count in counts]
        lines.append(_command("warning", TITLE, "\n".join(["the runs were not made alike:", *rows])))
    return lines


def _message(item: ItemComparison) -> str:
    if not item.difference:
        return item.summary
    at = f"words at {item.difference.second:.2f} s"
    sides = (("expected", item.difference.expected_words), ("got", item.difference.got_words))
    return "\n".join([item.summary, *(f"{name} {at}: {words or '(none)'}" for name, words in sides)])


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
