"""The text prompt that a caller chooses: a text, a file of one, or a role with its fields filled in."""

from collections.abc import Mapping
from pathlib import Path

from personaplex.core.errors import UsageError
from personaplex.core.files import check_utf8, read_text
from personaplex.prompts import library

DEFAULT_ROLE = "teacher"


def prompt_text(
    text: str | None = None,
    file: Path | None = None,
    role: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> str:
    """The text prompt; without any, that of the default role.

    Raises UsageError for two of them, fields without a role, a role's missing field and what is not UTF-8.
    """
    if sum(given is not None for given in (text, file, role)) > 1:
        raise UsageError("--text-prompt, --text-prompt-file and --role exclude each other", "give one of them")
    values = fields or {}
    for given in (text or "", *values, *values.values()):
        check_utf8(given, "the text prompt")
    if values and role is None:
        raise UsageError("--field fills in a --role, and none is given", "name the role")
    if text is not None:
        return text
    if file is not None:
        return read_text(file, "--text-prompt-file")
    return library.render(role or DEFAULT_ROLE, values)
