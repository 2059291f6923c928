"""An installed package with entry points, for as long as a test runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epochal.base import plugins


def write_package(installed: Path, name: str, entry_points: str) -> None:
    """What pip writes about a package with entry points."""
    about = installed / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    )
    about.joinpath("entry_points.txt").write_text(entry_points)


@contextmanager
def installed_package(folder: Path, name: str, entry_points: str) -> Iterator[Path]:
    """The folder of installed packages, with one."""
    installed = folder / "installed"
    write_package(installed, name, entry_points)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed)
        sys.modules.pop(name, None)
        plugins.entry_points.cache_clear()
        yield installed
        sys.modules.pop(name, None)
        plugins.entry_points.cache_clear()
