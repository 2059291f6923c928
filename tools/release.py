"""Checks that a version may be published.

    python tools/release.py v0.2.0      lists what is missing; the exit code is 1 if anything is
    python tools/release.py --fact source_url

A release needs the facts under ``[tool.epochal-release]`` in pyproject.toml, a tag that is the
version of the package, a dated section in the changelog, and the same version in CITATION.cff.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["--fact"]:
        print(facts(ROOT)[arguments[1]])
        return 0
    missing = list(problems(ROOT, arguments[0]))
    for problem in missing:
        print(problem)
    return int(bool(missing))


def facts(root: Path) -> dict[str, str]:
    """The facts of pyproject.toml; those that nobody knows yet are empty."""
    project = msgspec.toml.decode((root / "pyproject.toml").read_bytes())
    release: dict[str, str] = project["tool"]["epochal-release"]
    return release


def problems(root: Path, tag: str) -> Iterator[str]:
    """Each reason not to publish."""
    for name, value in facts(root).items():
        if not value:
            yield f"{name} is empty: fill it in under [tool.epochal-release] in pyproject.toml"
    version = package_version(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        yield f"{version} is not the version of a release: change src/epochal/version.py"
    if tag != f"v{version}":
        yield f"the tag is {tag}, but the version is {version}"
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$", changelog, re.M):
        yield f"CHANGELOG.md has no section '## {version} - DATE'"
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if f"version: {version}\n" not in citation:
        yield f"CITATION.cff does not name version {version}"


def package_version(root: Path) -> str:
    """The version, without importing the package."""
    text = (root / "src" / "epochal" / "version.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
