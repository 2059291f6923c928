"""Counts the code lines of each room and compares them with the budget in pyproject.toml.

    python tools/budget.py           prints what a change adds, and fails if a room is too large
    python tools/budget.py --table   prints the table of all rooms as well
    python tools/budget.py --lower   tightens the numbers, with slack for the next changes

A code line is a line that is not blank, not a comment and not part of a docstring. `--lower` gives
each room its size and 3 % more, at least 120 lines, and the total the sum of sizes and 1,000. It
never raises a number. A room without a number gets one: to give a room its slack again, on purpose,
delete its number first.
"""

from __future__ import annotations

import ast
import inspect
import io
import math
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
# What may be added before somebody has to look for room.
SLACK_SHARE, SLACK_LINES, SLACK_TOTAL = 0.03, 120, 1000
_TABLE = re.compile(r"^(\[tool\.epochal\.budget\].*\n)((?:\S.*\n)*)", re.MULTILINE)
_GENERATED_PART = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
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


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, cwd=ROOT)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def tracked(*patterns: str) -> list[str]:
    """The files of git's index that are there, and new files that git does not ignore."""
    listing = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns)
    if listing is None:
        raise SystemExit("tools/budget.py counts the files that git knows; this is no repository.")
    return sorted({line for line in listing.splitlines() if (ROOT / line).is_file()})


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def room_of(name: str) -> str:
    parts = Path(name).parts[2:]
    return parts[0] if len(parts) > 1 else "root"


def rooms() -> Counter[str]:
    counts: Counter[str] = Counter()
    for name in tracked("src/epochal/*.py"):
        counts[room_of(name)] += code_lines(text_of(name))
    return counts


def total_of(names: Iterable[str]) -> int:
    return sum(code_lines(text_of(name)) for name in names)


def words_of(text: str) -> int:
    """The words of a Markdown file outside its generated parts."""
    return len(_GENERATED_PART.sub("", text).split())


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
        "Markdown, words": sum(words_of(text_of(name)) for name in tracked("*.md")),
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
    rows = [f"{'room':<22}{'code lines':>11}{'budget':>9}"]
    rows += [
        f"{name:<22}{count:>11,}{budget.get(name, 0):>9,}"
        + ("  over" if count > budget.get(name, 0) else "")
        for name, count in [*counts.most_common(), ("total", counts.total())]
    ]
    return [*rows, "", *(f"{name:<22}{count:>11,}" for name, count in elsewhere().items())]


# -- what a change adds ---------------------------------------------------------------------------


def base() -> str | None:
    """The commit that a change is compared with; None where git does not have it."""
    main, head = git("rev-parse", "--verify", "--quiet", "main"), git("rev-parse", "HEAD")
    if main is None or (main == head and git("status", "--porcelain")):
        return "HEAD"
    is_main = main == head
    commit = (
        git("rev-parse", "--verify", "-q", "HEAD~1")
        if is_main
        else git("merge-base", "main", "HEAD")
    )
    return None if commit is None else commit.strip()


def place_of(name: str) -> str | None:
    """Where the lines of a file count: a room, the tests or the page; None where they do not."""
    if name.endswith(".py"):
        if name.startswith("src/epochal/"):
            return room_of(name)
        return "tests" if name.startswith("tests/") else None
    is_page = name.startswith("web/src/") and name.endswith((".ts", ".tsx"))
    return "page, lines" if is_page and name not in GENERATED else None


def lines_of(name: str, text: str) -> int:
    try:
        return code_lines(text) if name.endswith(".py") else len(text.splitlines())
    except (SyntaxError, tokenize.TokenError):
        return 0  # ruff and mypy name it


def changes() -> Counter[str]:
    """How many lines the change adds to each place; below 0 where it removes more."""
    found: Counter[str] = Counter()
    commit = base()
    listing = None if commit is None else git("diff", "--name-only", "--no-renames", commit)
    new = git("ls-files", "--others", "--exclude-standard")
    if listing is None or new is None:
        return found
    for name in sorted({*listing.splitlines(), *new.splitlines()}):
        if (place := place_of(name)) is not None:
            after = text_of(name) if (ROOT / name).is_file() else ""
            before = git("show", f"{commit}:{name}") or ""
            found[place] += lines_of(name, after) - lines_of(name, before)
    return Counter({place: count for place, count in found.items() if count})


def difference(counts: Counter[str]) -> list[str]:
    """The rooms, the page and the tests whose size the change moves; empty if it moves none."""
    found = changes()
    outside = {place: found.pop(place) for place in ("page, lines", "tests") if place in found}
    rows = [(room, counts[room], added) for room, added in sorted(found.items())]
    if rows:
        rows.append(("total", counts.total(), found.total()))
    lines = [f"{room:<22}{size - added:>11,}{size:>9,}{added:>+9,}" for room, size, added in rows]
    lines += [f"{place:<42}{added:>+9,}" for place, added in outside.items()]
    return [f"{'this change':<22}{'before':>11}{'after':>9}", *lines] if lines else []


# -- lowering -------------------------------------------------------------------------------------


def with_slack(count: int) -> int:
    return count + max(math.ceil(SLACK_SHARE * count), SLACK_LINES)


def lowered(settings: str, counts: Counter[str], budget: dict[str, int]) -> str:
    """The text of pyproject.toml with the lower of the number and the size with slack."""
    wanted = {"total": counts.total() + SLACK_TOTAL}
    wanted.update((name, with_slack(counts[name])) for name in sorted(counts))
    numbers = {name: min(budget.get(name, number), number) for name, number in wanted.items()}
    rows = "".join(f"{name} = {number}\n" for name, number in numbers.items())
    return _TABLE.sub(lambda match: match[1] + rows, settings, count=1)


def main() -> int:
    settings = text_of("pyproject.toml")
    budget: dict[str, int] = tomllib.loads(settings)["tool"]["epochal"]["budget"]
    counts = rooms()
    if "--lower" in sys.argv:
        SETTINGS.write_text(lowered(settings, counts, budget), encoding="utf-8")
        return 0
    over = [name for name, count in counts.items() if count > budget.get(name, 0)]
    if counts.total() > budget["total"]:
        over.append("total")
    if over or "--table" in sys.argv:
        print(*table(counts, budget), "", sep="\n")
    for line in difference(counts):
        print(line)
    long_files = too_long()
    for size, name in long_files:
        print(f"{name} has {size} lines; a file may have {MAX_FILE_LINES}.")
    if over:
        print(f"Over the numbers of [tool.epochal.budget] in pyproject.toml: {', '.join(over)}.")
        print("Shorten the code, or lower the number of a room that needs less and raise this one.")
    return int(bool(over or long_files))


if __name__ == "__main__":
    sys.exit(main())
