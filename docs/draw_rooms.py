"""Draws the rooms of the code and what they import, into docs/architecture.md: `python docs/draw_rooms.py`."""

from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp

PACKAGE = "personaplex"
ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).with_name("architecture.md")
START, END = "<!-- rooms -->\n", "<!-- /rooms -->\n"


def packages() -> list[str]:
    """The top-level packages, which are the folders with an `__init__.py`."""
    return sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")


def room(module: str) -> str:
    """The room of a module: its package, or of `core` the folder or module within."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[0] == "core" and len(parts) > 1 else parts[0]


def imports() -> dict[str, set[str]]:
    """Every room, from the top of the picture down, and those that it imports."""
    graph = grimp.build_graph(*(f"{PACKAGE}.{name}" for name in packages()))
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - {f"{PACKAGE}.core"}:
        others = {room(name) for name in graph.find_modules_directly_imported_by(module)}
        found[room(module)] |= others - {room(module)}
    return found


def levels(found: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by the longest way down to one that imports nothing; those that import most stand first."""

    @cache
    def height(name: str) -> int:
        return 1 + max(map(height, found[name]), default=-1)

    ranked: dict[int, list[str]] = defaultdict(list)
    for name in sorted(found):
        ranked[height(name)].append(name)
    return [ranked[rank] for rank in sorted(ranked, reverse=True)]


def drawing() -> str:
    """The picture as Markdown: a line for each room with its number of modules, each above all that it imports."""
    found = imports()
    lines = []
    for level in levels(found):
        for name in level:
            path = ROOT / name.replace(".", "/")
            modules = len([file for file in path.rglob("*.py") if file.name != "__init__.py"]) or 1
            below = ", ".join(sorted(other.removeprefix("core.") for other in found[name])) or "nothing"
            lines.append(f"{name:<14} {modules:>3}  imports {below}\n")
        lines.append("\n")
    return "```text\n" + "".join(lines[:-1]) + "```\n"


def drawn(page: str) -> str:
    """A page with the picture between its marks made anew."""
    before, _, rest = page.partition(START)
    return before + START + drawing() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
