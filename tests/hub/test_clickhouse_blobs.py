"""Blobs of a hub over ClickHouse: in the tables, in a folder, in a bucket."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from epochal.errors import UsageError
from epochal.store.clickhouse.blobs import PIECE_BYTES, Blobs, BucketBlobs, FolderBlobs
from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.tables import Tables
from tests.hub.clickhouse import new_database

pytestmark = pytest.mark.slow
DATA = bytes(range(256)) * (PIECE_BYTES // 256) + b"the rest"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for package in ("moto", "obstore"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: 'make test-hub' installs it")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with urlopen(Request(f"{url}/runs", method="PUT")):
        pass
    yield "s3://runs/blobs"
    server.stop()


@pytest.fixture(params=["tables", "folder", "bucket"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blobs]:
    if request.param == "folder":
        yield FolderBlobs(tmp_path / "blobs")
    elif request.param == "bucket":
        yield BucketBlobs(request.getfixturevalue("bucket"))
    else:
        tables = Tables(new_database("two shards"), every_s=0.0)
        yield tables.blobs
        tables.close()


def test_blobs_come_back_as_they_were(blobs: Blobs, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(DATA)
    assert blobs.sizes("one") == {}
    blobs.put("one", "a.bin", path)
    blobs.put("one", "a.bin", path)
    assert blobs.sizes("one") == {"a.bin": len(DATA)}
    assert blobs.sizes("other") == {}
    assert b"".join(blobs.pieces("one", "a.bin", size=len(DATA))) == DATA
    blobs.erase("one")


@pytest.fixture
def open_tables() -> Iterator[Callable[[str | None], Tables]]:
    address, opened = new_database("two shards"), []

    def open_tables(blobs: str | None) -> Tables:
        opened.append(Tables(address, blobs=blobs, every_s=0.0))
        return opened[-1]

    yield open_tables
    for tables in opened:
        tables.close()


def test_all_hubs_have_their_blobs_in_one_place(
    open_tables: Callable[[str | None], Tables], tmp_path: Path
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"data")
    open_tables(str(tmp_path / "blobs")).blobs.put("one", "a.bin", path)
    assert open_tables(None).blobs.sizes("one") == {"a.bin": 4}
    with pytest.raises(UsageError, match="are in"):
        open_tables("s3://elsewhere/x")


def test_a_bucket_that_is_not_there_is_told(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"data")
    with pytest.raises(ClickHouseError, match="the bucket s3://nowhere/x refuses"):
        BucketBlobs("s3://nowhere/x").put("one", "a.bin", path)
