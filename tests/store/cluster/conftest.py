"""A cluster for each test: an empty database, and a prefix of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.cluster import Cluster, opened_cluster
from tests.servers.postgres import new_database
from tests.servers.s3 import S3Server


@pytest.fixture
def cluster(s3: S3Server, postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Its hubs are opened with ``hub``."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with opened_cluster(new_database(postgres), s3.make_bucket("runs")) as cluster:
        yield cluster


@pytest.fixture
def folder_cluster(postgres: str, tmp_path: Path) -> Iterator[Cluster]:
    """One whose bucket is a folder."""
    with opened_cluster(new_database(postgres), str(tmp_path / "bucket")) as cluster:
        yield cluster
