"""What every bucket does; a new kind adds a line to ``KINDS``."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.store.bucket import Bucket, BucketError, ObjectNotFoundError, open_bucket
from tests.servers.s3 import S3Server


@pytest.fixture(params=["folder", "s3"])
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    if request.param == "folder":
        return open_bucket(str(tmp_path / "bucket"))
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return open_bucket(f"{server.make_bucket(f'b-{secrets.token_hex(4)}')}/some/prefix")


def keys(bucket: Bucket, prefix: str = "") -> list[str]:
    return sorted(stored.key for stored in bucket.list(prefix))


def test_an_object_is_there_once_it_was_put(bucket: Bucket) -> None:
    assert bucket.put("a/b.parquet", b"0123456789")
    assert bucket.get("a/b.parquet") == b"0123456789"
    assert bucket.get_ranges("a/b.parquet", [range(2, 5), range(8, 10)]) == [b"234", b"89"]
    (stored,) = bucket.list("a/")
    assert (stored.key, stored.size) == ("a/b.parquet", 10)


def test_an_object_is_replaced_on_request_only(bucket: Bucket) -> None:
    assert bucket.put("key", b"first")
    assert not bucket.put("key", b"second")
    assert bucket.get("key") == b"first"
    assert bucket.put("key", b"third", replace=True)
    assert bucket.get("key") == b"third"


def test_of_several_that_create_an_object_one_succeeds(bucket: Bucket) -> None:
    contents = [b"%d" % number for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        were_first = list(pool.map(lambda content: bucket.put("key", content), contents))
    assert were_first.count(True) == 1
    assert bucket.get("key") == contents[were_first.index(True)]


def test_a_file_of_many_parts_arrives_whole(bucket: Bucket, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (70 << 12))
    assert bucket.put("blobs/large", path)
    assert not bucket.put("blobs/large", path)
    assert bucket.get("blobs/large") == path.read_bytes()


def test_a_listing_has_the_keys_of_a_prefix(bucket: Bucket) -> None:
    for key in ("p/run-1/run.json", "p/run-1/segments/a", "p/run-10/run.json", "q/x"):
        bucket.put(key, b"{}")
    assert keys(bucket, "p/run-1") == [
        "p/run-1/run.json",
        "p/run-1/segments/a",
        "p/run-10/run.json",
    ]
    assert keys(bucket, "p/run-1/") == ["p/run-1/run.json", "p/run-1/segments/a"]
    assert keys(bucket, "none/") == []
    assert len(keys(bucket)) == 4


def test_what_was_deleted_is_gone(bucket: Bucket) -> None:
    bucket.put("a", b"1")
    bucket.put("b", b"2")
    bucket.delete(["a", "never-there"])
    assert keys(bucket) == ["b"]
    with pytest.raises(ObjectNotFoundError, match="'a'"):
        bucket.get("a")
    with pytest.raises(ObjectNotFoundError, match="'a'"):
        bucket.get_ranges("a", [range(1)])


@pytest.mark.parametrize("key", ["", "/etc/passwd", "a//b", "../a", "a/..", "./a", "a/\0"])
def test_a_key_never_leaves_the_bucket(bucket: Bucket, key: str) -> None:
    with pytest.raises(UsageError, match="not the key"):
        bucket.put(key, b"")
    with pytest.raises(UsageError, match="not the key"):
        bucket.get(key)


def test_a_bucket_that_is_away_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, s3: S3Server
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BucketError, match="there is no bucket s3://not-made") as raised:
        open_bucket("s3://not-made").put("key", b"")
    assert "\n" not in str(raised.value)
