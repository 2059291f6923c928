"""The folder of crash points, and how many of them are tried."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    """Of so many calls one has a fault, where not every call has one."""
    return 1 if request.config.getoption("thorough") else 5


@pytest.fixture
def original(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that operations get copies of; in memory, where nothing waits for a disk."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(Path(folder) / "cache"))
        yield Path(folder) / "original"
