"""Prints how large the code is, and fails when a file has outgrown one concept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MAX_LINES = 800
NOTICE_LINES = 500
# Nobody edits these; tools/wire.py writes them.
GENERATED = {Path("web/src/wire.ts")}


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listing.stdout.splitlines() if (path := Path(line)).is_file()]


def lines_of(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def main() -> int:
    rooms = {
        "src": tracked("src/*.py"),
        "web": tracked("web/src/*.ts", "web/src/*.tsx"),
        "tests": tracked("tests/*.py"),
        "benchmarks": tracked("benchmarks/*.py"),
    }
    for room, paths in rooms.items():
        if paths:
            sizes = sorted(lines_of(path) for path in paths)
            median, largest = sizes[len(sizes) // 2], sizes[-1]
            print(
                f"{room:<11} {sum(sizes):6d} lines {len(paths):4d} files"
                f"   median {median:4d}   largest {largest:4d}"
            )
    written = (path for path in (*rooms["src"], *rooms["web"]) if path not in GENERATED)
    code = [(lines_of(path), path) for path in written]
    for size, path in sorted(code, reverse=True):
        if size > NOTICE_LINES:
            print(f"  {size:4d} {path}" + ("  TOO LONG" if size > MAX_LINES else ""))
    return int(any(size > MAX_LINES for size, _ in code))


if __name__ == "__main__":
    sys.exit(main())
