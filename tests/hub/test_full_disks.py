"""A disk of the database or of the bucket that is full: nothing is lost, and nobody has to help."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from benchmarks.hub.faults import SmallDisk
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.inbox import Inbox
from epochal.store.bucket import BucketError, open_bucket
from epochal.store.cluster.database import CatalogAwayError, Database
from epochal.store.cluster.runs import ClusterRuns
from tests.doubles.cluster import STEM, register
from tests.servers.postgres import new_database

MOST = 600


@contextlib.contextmanager
def opened(address: str, bucket: Path) -> Iterator[ClusterInbox]:
    with contextlib.closing(Database(address)) as database:
        database.prepare()
        inbox = ClusterInbox(ClusterRuns(database, open_bucket(str(bucket))), collect_s=0.0)
        with contextlib.closing(inbox):
            yield inbox


@pytest.fixture
def small_database(postgres: str) -> Iterator[tuple[str, Path]]:
    """The address of a database on a small disk, and the folder of the disk."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk for the server of the database")
    folder = Path(tempfile.mkdtemp(prefix="small-"))
    folder.chmod(0o755)
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    name = f"t{secrets.token_hex(6)}"
    (sockets,) = parse_qs(urlsplit(postgres).query)["host"]
    try:
        (folder / "data").mkdir()
        os.chown(folder / "data", os.stat(sockets).st_uid, -1)
        with psycopg.connect(postgres, autocommit=True) as owner:
            owner.execute(f"create tablespace {name} location '{folder / 'data'}'")
            owner.execute(f"create database {name} tablespace {name}")
            yield postgres.replace("/postgres?", f"/{name}?"), folder
            owner.execute(f"drop database {name} with (force)")
            owner.execute(f"drop tablespace {name}")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def line(number: int) -> bytes:
    """A line that cannot be compressed."""
    return b'{"log":"text","t":1,"text":"%d %s"}\n' % (number, secrets.token_hex(8000).encode())


def test_a_full_disk_of_the_database(small_database: tuple[str, Path], tmp_path: Path) -> None:
    address, disk = small_database
    sent: list[bytes] = []
    with opened(address, tmp_path / "bucket") as inbox:
        register(inbox)

        def send(num_lines: int) -> None:
            for _ in range(num_lines):
                text = line(len(sent))
                assert inbox.append("one", STEM, first=len(sent), lines=text) == len(sent) + 1
                sent.append(text)

        send(1)
        with open(disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        with pytest.raises(CatalogAwayError, match="No space left"):
            send(MOST)
        # PostgreSQL may refuse new connections as well.
        (reason,) = inbox.readiness().missing
        assert reason.startswith(("the database stores no lines", "the database cannot be reached"))
        (disk / "filler").unlink()
        send(1)
        assert inbox.readiness().missing == ()
        assert b"".join(found(inbox, len(sent))) == b"".join(sent)


def found(inbox: Inbox, num_lines: int) -> Iterator[bytes]:
    have = 0
    while have < num_lines:
        piece = inbox.lines("one", STEM, first=have)
        have += piece.count(b"\n")
        yield piece


def test_a_full_disk_of_the_bucket(postgres: str, tmp_path: Path) -> None:
    try:
        disk = SmallDisk(tmp_path / "disk", size=1 << 20)
    except OSError as error:
        pytest.skip(str(error))
    data = secrets.token_bytes(100_000)
    with contextlib.closing(disk), opened(new_database(postgres), disk.path / "bucket") as inbox:
        register(inbox)
        sha256 = hashlib.sha256(data).hexdigest()

        def send(name: str) -> int:
            return inbox.put_file(
                "one", "blobs", name, data, offset=0, size=len(data), sha256=sha256
            )

        assert send("first.bin") == len(data)
        disk.fill()
        with pytest.raises(BucketError, match="No space left"):
            send("second.bin")
        assert "the bucket stores no files now" in inbox.readiness().notes[-1]
        assert inbox.append("one", STEM, first=0, lines=line(0)) == 1  # lines need no bucket
        disk.free()
        assert send("second.bin") == len(data)
        assert len(inbox.readiness().notes) == 1
        assert inbox.file("one", "blobs", "first.bin", offset=0) == data
        assert inbox.file("one", "blobs", "second.bin", offset=0) == data
