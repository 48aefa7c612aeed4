"""The library of roles: text prompts kept as `roles/<name>.txt`, with fields in braces to fill in.

Only `{identifier}` is a field; any other brace is plain text.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from personaplex.core.errors import UsageError

_ROLES = Path(__file__).parent / "roles"
_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names() -> list[str]:
    """Names of all roles, sorted."""
    return sorted(path.stem for path in _ROLES.glob("*.txt"))


def text(name: str) -> str:
    """The text of role `name`, its fields still in braces; a `UsageError` lists the known roles."""
    known = names()
    if name not in known:
        close = get_close_matches(name.lower(), known, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        raise UsageError(f'no role is called "{name}"', f"{hint}known roles: {', '.join(known)}")
    return (_ROLES / f"{name}.txt").read_text(encoding="utf-8").strip()


def fields(text: str) -> list[str]:
    """Names of the fields in `text`, each once, in order of appearance."""
    return list(dict.fromkeys(_FIELD.findall(text)))


def render(name: str, values: Mapping[str, str]) -> str:
    """The text of role `name` with every field replaced by its value.

    A value is inserted as it is: braces inside it are not fields. A `UsageError` names an unknown role, the fields
    that the role doesn't have and those that `values` lacks.
    """
    template = text(name)
    known = fields(template)
    if unknown := [field for field in values if field not in known]:
        mend = f"its fields: {', '.join(known)}" if known else "it takes no fields: leave them out"
        raise UsageError(f'role "{name}" has no {_listed(unknown)}', mend)
    if missing := [field for field in known if field not in values]:
        raise UsageError(f'role "{name}" lacks a value for {_listed(missing)}', "give every field of the role a value")
    return _FIELD.sub(lambda match: values[match[1]], template)


def _listed(given: list[str]) -> str:
    return f"field{'s' if len(given) > 1 else ''} {', '.join(given)}"


def named(prompt: str) -> str | None:
    """The role that a prompt's text is of, with any values of its fields; None if it is of none."""
    return next((name for name, form in _forms() if form.fullmatch(prompt.strip())), None)


@cache
def _forms() -> list[tuple[str, re.Pattern[str]]]:
    """Each role and what its rendered texts match, those of the most letters of their own first."""
    forms = {}
    for name in names():
        letters = _FIELD.sub("\0", text(name)).split("\0")
        forms[name] = (sum(map(len, letters)), re.compile("(.*?)".join(map(re.escape, letters)), re.DOTALL))
    return [(name, form) for name, (_, form) in sorted(forms.items(), key=lambda one: -one[1][0])]
