"""``npm ci`` installs the page's tools from the lock file on every platform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parents[2] / "web"
LOCK = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
REGISTRY = "https://registry.npmjs.org/"


def is_locked(name: str, user: str) -> bool:
    """Return True if Node finds an entry for a package that another package asks for."""
    return f"{user}/node_modules/{name}" in LOCK or f"node_modules/{name}" in LOCK


def test_the_lock_file_has_every_package_of_every_platform() -> None:
    missing = [
        f"{user or 'package.json'} asks for {name}"
        for user, package in LOCK.items()
        for kind in ("dependencies", "devDependencies", "optionalDependencies")
        for name in package.get(kind, {})
        if not is_locked(name, user)
    ]
    assert not missing


@pytest.mark.parametrize("platform", ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"])
@pytest.mark.parametrize(
    "tool", ["@rolldown/binding", "@typescript/typescript", "lightningcss", "@biomejs/cli"]
)
def test_programs_are_locked_for_linux_and_macos(tool: str, platform: str) -> None:
    found = [name for name in LOCK if name.startswith(f"node_modules/{tool}-{platform}")]
    assert found
    assert all(LOCK[name]["integrity"] for name in found)


def test_the_lock_file_belongs_to_package_json() -> None:
    package: dict[str, Any] = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    for kind in ("dependencies", "devDependencies"):
        assert LOCK[""][kind] == package[kind]


def test_packages_come_from_the_public_registry() -> None:
    addresses = [package["resolved"] for package in LOCK.values() if "resolved" in package]
    assert [address for address in addresses if not address.startswith(REGISTRY)] == []
