from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.places import Places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    return Places(tmp_path, monkeypatch)
