"""Counts the lines of the page and compares them with [tool.epochal.page] in pyproject.toml.

    python tools/page_size.py           fails if the page or one of its functions is too long
    python tools/page_size.py --lower   writes the numbers of today wherever they are lower

The page is web/src as `make format` leaves it. A function may have 120 lines, with the functions
inside it. Those that have more are listed in `[tool.epochal.page.long]`, and may only shrink.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
SETTINGS = ROOT / "pyproject.toml"
MAX_FUNCTION_LINES = 120
ROOM = 300  # lines that the page may grow after `--lower`: a section has about 60


@dataclass(frozen=True)
class PageBudget:
    lines: int
    long: dict[str, int]  # "src/state/runs.ts:createRuns" = lines


def read_budget(settings: str) -> PageBudget:
    return PageBudget(**tomllib.loads(settings)["tool"]["epochal"]["page"])


def lines(folder: Path = WEB / "src") -> int:
    """The lines of all TypeScript files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.ts*"))


def long_functions(web: Path = WEB) -> dict[str, int]:
    """The functions that have more lines than a function may have."""
    command = ["node", str(WEB / "functions.mjs")]
    listing = subprocess.run(command, cwd=web, stdout=subprocess.PIPE, text=True, check=True)
    counts: dict[str, int] = json.loads(listing.stdout)
    return {name: count for name, count in sorted(counts.items()) if count > MAX_FUNCTION_LINES}


def problems(budget: PageBudget, count: int, long: dict[str, int]) -> list[str]:
    """What is too long, and what to do about it."""
    found = []
    if count > budget.lines:
        found.append(
            f"web/src has {count} lines and may have {budget.lines}: shorten it, or raise `lines` "
            "of [tool.epochal.page] in pyproject.toml and say why in the commit."
        )
    for name, length in long.items():
        limit = budget.long.get(name, MAX_FUNCTION_LINES)
        if length > limit:
            found.append(f"{name} has {length} lines and may have {limit}: move a part out of it.")
    return found


def lowered(settings: str, count: int, long: dict[str, int]) -> str:
    """The text of pyproject.toml without room that is not needed any more."""
    budget = read_budget(settings)
    limit = min(budget.lines, count + ROOM)
    settings = re.sub(rf"^lines = {budget.lines}$", f"lines = {limit}", settings, flags=re.M)
    for name, limit in budget.long.items():
        line = f'"{name}" = {limit}\n'
        length = min(limit, long.get(name, 0))
        settings = settings.replace(line, f'"{name}" = {length}\n' if length else "")
    return settings


def main() -> int:
    settings = SETTINGS.read_text(encoding="utf-8")
    count, long = lines(), long_functions()
    if "--lower" in sys.argv:
        SETTINGS.write_text(lowered(settings, count, long), encoding="utf-8")
        return 0
    found = problems(read_budget(settings), count, long)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
