"""Writes the table of sections in docs/how-to/live-page.md from what the panels' files declare.

A section is a file of ``web/src/panels`` that exports ``section``. Its first comment says what it
shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "web" / "src" / "panels"
PAGE = ROOT / "docs" / "how-to" / "live-page.md"
START = "<!-- panels: printed by tools/panels_table.py (make docs) -->\n"
END = "<!-- end of panels -->\n"
HEADER = """\
| section | key | what it shows |
|---|---|---|
"""
_DECLARATION = re.compile(
    r"^export const section: RunSection = \{(.*?)\};$", re.DOTALL | re.MULTILINE
)
_SUMMARY = re.compile(r"/\*\* (.*?) \*/")


@dataclass(frozen=True, slots=True)
class Panel:
    """What the page and its tests need to know of a panel."""

    order: int
    id: str
    title: str
    shortcut: str
    summary: str


def declared_panels() -> list[Panel]:
    """Every panel, in the order of its tab."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.tsx")))
    found = [_panel(text, match[1]) for text in texts if (match := _DECLARATION.search(text))]
    return sorted(found, key=lambda panel: panel.order)


def _panel(text: str, declaration: str) -> Panel:
    def value(field: str) -> str:
        match = re.search(rf'\b{field}: "?([^",]+)', declaration)
        if match is None:
            raise ValueError(f"a panel declares no {field} as a plain value: {declaration}")
        return match[1]

    summary = _SUMMARY.match(text)
    if summary is None:
        raise ValueError(f"the file of the panel {value('id')} must begin with a comment: /** … */")
    names = (value("id"), value("title"), value("shortcut"))
    return Panel(int(value("order")), *names, summary[1])


def with_table(page: str) -> str:
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    rows = "".join(
        f"| {panel.title} | `{panel.shortcut}` | {panel.summary} |\n" for panel in declared_panels()
    )
    return f"{before}{START}\n{HEADER}{rows}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
