"""Writes the table of settings in docs/reference/index.md from their declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epochal.settings import DECLARED, RUN_OPTIONS, Setting

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "index.md"
START = "<!-- settings: printed by tools/settings_table.py (make docs) -->\n"
END = "<!-- end of settings -->\n"
HEADER = """\
| key | variable | keyword of `init` | meaning | values | default |
|---|---|---|---|---|---|
"""


def table() -> str:
    return HEADER + "".join(map(row, DECLARED))


def row(setting: Setting) -> str:
    cells = (
        f"`{setting.key}`" if setting.key else "–",
        f"`{setting.variable}`" if setting.variable else "–",
        f"`{setting.name}`" if setting.name in RUN_OPTIONS else "–",
        setting.meaning,
        setting.kind.accepts,
        default_of(setting.default),
    )
    return f"| {' | '.join(cells)} |\n"


def default_of(value: Any) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def with_table(page: str) -> str:
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
