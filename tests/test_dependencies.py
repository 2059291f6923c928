"""Every dependency has a row in the docs, and the base install stays in its budget."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.install_cost import base_install, needed, size_mb

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")
PROJECT = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
MOST_PACKAGES, MOST_MB = 24, 320
MOST_NODE_MB = 5


def test_every_dependency_has_a_row_and_no_row_is_left_over() -> None:
    tables = PAGE.partition("## Base install")[2].partition("## Written by hand")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", tables, re.MULTILINE)
    named = {canonicalize_name(name) for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {canonicalize_name(name) for name in (*_python_packages(), *_page_packages())}


def test_the_base_install_stays_in_its_budget() -> None:
    everything = set[str]().union(*map(needed, base_install()))
    assert len(everything) <= MOST_PACKAGES, sorted(everything)
    assert sum(map(size_mb, everything)) <= MOST_MB
    assert f"{MOST_PACKAGES} packages, {MOST_MB} MB" in PAGE


def test_a_training_node_needs_two_packages_that_need_none() -> None:
    for name in ("msgspec", "psutil", "nvidia-ml-py"):
        assert needed(name) == {name}
    assert size_mb("msgspec") + size_mb("psutil") <= MOST_NODE_MB
    assert f"2 packages, {MOST_NODE_MB} MB" in PAGE


def test_the_lowest_constraints_are_the_lower_bounds() -> None:
    bounds = {
        canonicalize_name(asked.name): bound.version
        for asked in _users_requirements()
        for bound in asked.specifier
        if bound.operator == ">="
    }
    assert _pins("constraints-lowest.txt") == {name: {bounds[name]} for name in bounds}


def test_the_newest_tested_version_of_every_dependency_is_pinned() -> None:
    pins = _pins("constraints.txt")
    for asked in _users_requirements():
        versions = pins[canonicalize_name(asked.name)]
        assert all(asked.specifier.contains(version) for version in versions), asked
    tools = {
        canonicalize_name(Requirement(text).name) for text in PROJECT["dependency-groups"]["dev"]
    }
    assert tools <= pins.keys()


def _users_requirements() -> list[Requirement]:
    """The dependencies and those of every extra."""
    project = PROJECT["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]
    return [asked for asked in map(Requirement, texts) if asked.name != "epochal"]


def _pins(file: str) -> dict[str, set[str]]:
    pins: dict[str, set[str]] = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            (version,) = pin.specifier
            assert version.operator == "==", line
            pins.setdefault(canonicalize_name(pin.name), set()).add(version.version)
    return pins


def _python_packages() -> set[str]:
    project = PROJECT["project"]
    asked = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
        *PROJECT["dependency-groups"]["dev"],
    ]
    return {Requirement(text).name for text in asked} - {"epochal"}


def _page_packages() -> set[str]:
    package = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    return {
        canonicalize_name(name) for name in package["dependencies"] | package["devDependencies"]
    }
