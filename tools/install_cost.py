"""What each dependency costs: MB on disk, packages it brings, and ms to import.

    python tools/install_cost.py            a table for docs/dependencies.md

Sizes are those of the files that pip recorded; times are the fastest of five fresh interpreters,
less an empty one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution, requires

# What a package is imported as, where that differs, and what Epochal imports of it.
MODULES = {
    "nvidia-ml-py": "pynvml",
    "PyYAML": "yaml",
    "google-re2": "re2",
    "pyarrow": "pyarrow.ipc",
    "textual": "textual.app",
    "rich": "rich.console",
    "starlette": "starlette.applications",
    "pillow": "PIL.ImageDraw",
}
RUNS = 5


def size_mb(name: str) -> float:
    """The files of one distribution, in MB."""
    files = distribution(name).files or []
    sizes = [path.stat().st_size for file in files if (path := file.locate()).is_file()]
    return sum(sizes) / 1e6


def needed(name: str, seen: set[str]) -> set[str]:
    """A distribution and everything that it needs, extras left out."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in seen:
        seen.add(key)
        for requirement in requires(name) or []:
            if "extra ==" not in requirement and _applies(requirement):
                needed(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], seen)
    return seen


def _applies(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"extra": ""})


def seconds(source: str) -> float:
    """The fastest of some fresh interpreters."""
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", source], check=True)
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    names = sys.argv[1:] or [
        re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        for requirement in requires("epochal") or []
        if "extra ==" not in requirement
    ]
    empty = seconds("pass")
    everything: set[str] = set()
    print("| package | MB | brings | MB with these | ms |\n|---|---|---|---|---|")
    for name in names:
        try:
            own = needed(name, set())
        except PackageNotFoundError:
            print(f"| {name} | not installed |")
            continue
        everything |= own
        module = MODULES.get(name, name)
        taken = 1000 * (seconds(f"import {module}") - empty)
        total = sum(size_mb(one) for one in own)
        print(f"| {name} | {size_mb(name):.1f} | {len(own) - 1} | {total:.1f} | {taken:.0f} |")
    total = sum(size_mb(name) for name in everything)
    print(f"\n{len(everything)} packages, {total:.0f} MB; Python alone {1000 * empty:.0f} ms")


if __name__ == "__main__":
    main()
