from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.hub_process import HubProcess
from tests.store.cluster.conftest import cluster as cluster


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    process = HubProcess(tmp_path / "hub")
    yield process
    process.stop()
