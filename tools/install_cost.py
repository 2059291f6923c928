"""What each dependency costs: MB on disk, packages that it brings, and ms to import.

    python tools/install_cost.py [PACKAGE…]       the numbers of docs/explanation/dependencies.md

Without names, the packages of the base install. Sizes are those of the files that pip recorded;
times are processor time, the least of five fresh interpreters, less an empty one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What Epochal imports of a package, where it is not a module of the package's own name.
MODULES = {
    "google-re2": "re2",
    "nvidia-ml-py": "pynvml",
    "pillow": "PIL.ImageDraw",
    "pyarrow": "pyarrow.ipc",
    "pyyaml": "yaml",
    "rich": "rich.console",
    "starlette": "starlette.applications",
    "textual": "textual.app",
}
PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
RUNS = 5


def size_mb(name: str) -> float:
    """The files of one distribution, in MB."""
    files = distribution(name).files or []
    return sum(os.path.getsize(at) for file in files if os.path.isfile(at := file.locate())) / 1e6


def needed(name: str) -> set[str]:
    """A distribution and everything that it needs here, extras left out."""
    found: set[str] = set()
    waiting = [canonicalize_name(name)]
    while waiting:
        found.add(one := waiting.pop())
        asked = [Requirement(text) for text in requires(one) or []]
        waiting += {canonicalize_name(each.name) for each in asked if _applies(each)} - found
    return found


def base_install() -> list[str]:
    """The names of what ``pip install epochal`` asks for itself."""
    project = msgspec.toml.decode(PYPROJECT.read_bytes())["project"]
    asked = map(Requirement, project["dependencies"])
    return [canonicalize_name(each.name) for each in asked if _applies(each)]


def import_ms(source: str) -> float:
    """Processor time of the fastest of some fresh interpreters."""
    return min(_spent_ms(source) for _ in range(RUNS))


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _spent_ms(source: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", source], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    empty = import_ms("pass")
    everything: set[str] = set()
    print("| package | MB | brings | MB with these | ms |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or base_install():
        try:
            own = needed(name)
        except PackageNotFoundError as missing:
            print(f"| {name} | not measured: {missing.name} is not installed |")
            continue
        everything |= own
        module = MODULES.get(name, name.replace("-", "_"))
        is_module = find_spec(module.partition(".")[0]) is not None
        spent = f"{import_ms(f'import {module}') - empty:.0f}" if is_module else "–"
        total = sum(map(size_mb, own))
        print(f"| {name} | {size_mb(name):.1f} | {len(own) - 1} | {total:.1f} | {spent} |")
    total = sum(map(size_mb, everything))
    print(f"\n{len(everything)} packages, {total:.0f} MB; Python alone {empty:.0f} ms")


if __name__ == "__main__":
    main()
