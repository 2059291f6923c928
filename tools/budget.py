"""Counts the code and compares it with the budget in pyproject.toml.

    python tools/budget.py           fails and prints the table when something is over its budget
    python tools/budget.py --table   prints the table in any case
    python tools/budget.py --lower   writes the numbers of today wherever they are lower

A code line is a line that is not blank, not a comment and not part of a docstring. You may lower
a number in `[tool.epochal.budget]` in any commit. When you move lines from one package to another,
you may move the numbers too, and the commit says so. The total is raised only on purpose.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
SETTINGS = ROOT / "pyproject.toml"
MAX_FILE_LINES = 800
# tools/wire.py writes this file, and nobody edits it.
GENERATED = {"web/src/wire.ts"}
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def tracked(*patterns: str) -> list[str]:
    """The files of git's index that are there, and new files that git does not ignore."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return sorted({line for line in listing.stdout.splitlines() if (ROOT / line).is_file()})


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def package_of(name: str) -> str:
    parts = Path(name).parts[2:]
    return parts[0] if len(parts) > 1 else "root"


def packages() -> Counter[str]:
    counts: Counter[str] = Counter()
    for name in tracked("src/epochal/*.py"):
        counts[package_of(name)] += code_lines(text_of(name))
    return counts


def total_of(names: Iterable[str]) -> int:
    return sum(code_lines(text_of(name)) for name in names)


def elsewhere() -> dict[str, int]:
    """What is counted but has no budget."""
    import epochal
    import epochal.torch
    from epochal.cli.main import COMMANDS
    from epochal.health.registry import RULES

    members = {name for name in dir(epochal.Run) if not name.startswith("_")}
    return {
        "files in src": len(tracked("src/epochal/*.py")),
        "tests": total_of(tracked("tests/*.py")),
        "benchmarks": total_of(tracked("benchmarks/*.py")),
        "tools": total_of(tracked("tools/*.py")),
        "examples": total_of(tracked("examples/*.py")),
        "web/src, lines": sum(
            len(text_of(name).splitlines()) for name in tracked("web/src/*.ts", "web/src/*.tsx")
        ),
        "Markdown, words": sum(len(text_of(name).split()) for name in tracked("*.md")),
        "commands": sum(map(len, COMMANDS.values())),
        "init arguments": len(inspect.signature(epochal.init).parameters),
        "Run members": len(members),
        "epochal.torch names": len(epochal.torch.__all__),
        "rules": len(RULES),
    }


def too_long() -> list[tuple[int, str]]:
    names = tracked("src/*.py", "web/src/*.ts", "web/src/*.tsx")
    sizes = ((len(text_of(name).splitlines()), name) for name in names if name not in GENERATED)
    return sorted((size, name) for size, name in sizes if size > MAX_FILE_LINES)


def table(counts: Counter[str], budget: dict[str, int]) -> list[str]:
    rows = [f"{'package':<22}{'code lines':>11}{'budget':>9}"]
    rows += [
        f"{name:<22}{count:>11,}{budget.get(name, 0):>9,}"
        + ("  over" if count > budget.get(name, 0) else "")
        for name, count in [*counts.most_common(), ("total", counts.total())]
    ]
    return [*rows, "", *(f"{name:<22}{count:>11,}" for name, count in elsewhere().items())]


def lowered(settings: str, counts: Counter[str], budget: dict[str, int]) -> str:
    """The text of pyproject.toml with the smaller of budget and count for each package."""
    for name, limit in budget.items():
        count = counts.total() if name == "total" else counts[name]
        line = re.compile(rf'^("?{re.escape(name)}"? = ){limit}$', re.MULTILINE)
        settings = line.sub(rf"\g<1>{min(limit, count)}", settings)
    return settings


def main() -> int:
    settings = text_of("pyproject.toml")
    budget: dict[str, int] = tomllib.loads(settings)["tool"]["epochal"]["budget"]
    counts = packages()
    if "--lower" in sys.argv:
        SETTINGS.write_text(lowered(settings, counts, budget), encoding="utf-8")
        return 0
    over = [name for name, count in counts.items() if count > budget.get(name, 0)]
    if counts.total() > budget["total"]:
        over.append("total")
    if over or "--table" in sys.argv:
        print(*table(counts, budget), sep="\n")
    long_files = too_long()
    for size, name in long_files:
        print(f"{name} has {size} lines; a file may have {MAX_FILE_LINES}.")
    if over:
        print(f"Over the numbers of [tool.epochal.budget] in pyproject.toml: {', '.join(over)}.")
        print("Shorten the code, or lower the number of a package with room and raise this one.")
    return int(bool(over or long_files))


if __name__ == "__main__":
    sys.exit(main())
