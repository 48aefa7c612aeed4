"""What all pages of the reports are made with: templates that share a head, a style and a script."""

from pathlib import Path

import jinja2

_PARTS = Path(__file__).parent


def templates(folder: Path) -> jinja2.Environment:
    """The templates of a folder, which may include the parts; text is escaped, and a name that is missing an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _PARTS]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
