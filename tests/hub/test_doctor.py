"""The doctor of a hub names what is wrong, with the exit code 1, and nothing where all is well."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.hub.ledger import Ledger
from epochal.store.cluster.sealing import Sealer, SealRule
from tests.doubles.cluster import STEM, Cluster, age, lines, register
from tests.servers.postgres import new_database


def examine(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int
) -> dict[tuple[str, str], str]:
    """The sentences of the checks by their names and results."""
    assert main(["hub", "doctor", *arguments, "--json"]) == code
    checks: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    found: dict[tuple[str, str], str] = {}
    for check in checks:
        key = (check["name"], check["level"])
        found[key] = f"{found.get(key, '')}{check['text']}\n"
    return found


@pytest.fixture
def addresses(cluster: Cluster) -> list[str]:
    """Of a cluster with a sealed run."""
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 10))
    assert Sealer(runs, SealRule(settled_s=0.0, idle_s=0.0)).seal_next()
    return ["--catalog", cluster.address, "--bucket", cluster.bucket]


def test_all_is_well(
    cluster: Cluster, addresses: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = examine(capsys, *addresses, code=0)
    assert "durable on one machine" in found.pop(("standby", "warning"))
    assert "all 1 files of runs are among 1 object" in found["objects", "ok"]
    assert "the primary" in found["server", "ok"]
    assert {level for _, level in found} == {"ok"}
    assert not list(cluster.hub().bucket.list("doctor/"))
    assert main(["hub", "doctor", *addresses]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["RESULT", "CHECK"]
    assert printed[2].startswith("warning  standby  what is acknowledged")


def test_missing_and_forgotten_objects_are_named(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.bucket = str(tmp_path / "bucket")
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 10))
    assert Sealer(runs, SealRule(settled_s=0.0, idle_s=0.0)).seal_next()
    (stored,) = runs.bucket.list()
    runs.bucket.delete([stored.key])
    runs.bucket.put("p/two/segments/old.parquet", b"0123")
    runs.bucket.put("p/two/segments/new.parquet", b"0123")
    os.utime(tmp_path / "bucket/p/two/segments/old.parquet", (1.0, time.time() - 8 * 86_400))
    addresses = ["--catalog", cluster.address, "--bucket", cluster.bucket]
    found = examine(capsys, *addresses, code=1)
    assert stored.key in found["objects", "error"]
    assert "1 object that no run has (4 B, the oldest of 8 d ago)" in found["objects", "warning"]
    assert "new.parquet" not in found["objects", "warning"]


def test_old_lines_and_leases_are_warnings(
    cluster: Cluster, addresses: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = cluster.hub()
    cluster.inbox(runs).append("one", STEM, first=10, lines=lines(10, 12))
    runs.database.run(
        lambda cursor: cursor.execute(
            "update epochal.parts set lease_owner = 'a', lease_until = now()"
        )
    )
    age(runs, 7 * 3600.0)
    found = examine(capsys, *addresses, code=0)
    assert "1 part with lines that are not sealed; the oldest" in found["lines", "warning"]
    assert "1 lease expired" in found["leases", "warning"]


def test_a_role_without_rights_is_an_error(
    cluster: Cluster, addresses: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    role = f"r{os.urandom(4).hex()}"
    text = (
        f"create role {role} login; grant usage on schema epochal to {role};"
        f" grant select on all tables in schema epochal to {role}"
    )
    cluster.hub().database.run(lambda cursor: cursor.execute(text, binary=False))
    other = cluster.address.replace("postgres:@", f"{role}:@")
    found = examine(capsys, "--catalog", other, *addresses[2:], code=1)
    assert f"{role} lacks rights on blobs, " in found["rights", "error"]


def test_what_is_away_is_an_error(
    cluster: Cluster,
    addresses: list[str],
    postgres: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = "postgresql://nobody@127.0.0.1:1/x"
    found = examine(capsys, "--catalog", away, "--bucket", "s3://no-such-bucket/x", code=1)
    assert ("server", "error") in found
    assert "no-such-bucket" in found["bucket", "error"]
    other = [*addresses[:3], str(tmp_path / "bucket")]
    cluster.hub().database.run(
        lambda cursor: cursor.execute(
            "insert into epochal.documents values ('hub', 'bucket', '{\"address\":\"s3://x\"}')"
        )
    )
    assert "its bucket is s3://x" in examine(capsys, *other, code=1)["bucket", "error"]
    empty = examine(capsys, "--catalog", new_database(postgres), *addresses[2:], code=1)
    assert "has no tables yet" in empty["schema", "error"]


def test_the_folder_of_a_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no hub has run" in examine(capsys, str(tmp_path), code=1)["hub", "error"]
    Ledger(tmp_path).close()
    found = examine(capsys, str(tmp_path), code=0)
    assert "durable on one machine" in found["folder", "ok"]
    (tmp_path / ".hub" / "hub.sqlite").write_bytes(b"no database" * 100)
    assert "not a database" in examine(capsys, str(tmp_path), code=1)["documents", "error"]
