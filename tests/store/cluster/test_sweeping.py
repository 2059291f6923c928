"""What nobody needs is deleted, and nothing else, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psycopg
import pytest

from epochal.hub.counters import HubCounters
from epochal.hub.maintenance import Maintenance
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.cluster.sweeping import RECOVERY_S, drop_partitions, sweep_objects
from epochal.store.published import read_bucket, read_parts
from tests.doubles.cluster import FINISH, STEM, Cluster, age, lines, register
from tests.doubles.companions import wait_for

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)
OLD = "lines_20200101"


def keys(runs: ClusterRuns, prefix: str = "") -> set[str]:
    return {stored.key for stored in runs.bucket.list(prefix)}


def put_object(runs: ClusterRuns, key: str, folder: Path) -> None:
    (folder / "x").write_bytes(b"x")
    runs.put_object(key, folder / "x")


def sweep(runs: ClusterRuns) -> int:
    return sweep_objects(runs.database, runs.bucket)


def move_to_the_past(runs: ClusterRuns) -> None:
    """Have all lines lie in the partition of a day years ago."""

    def work(cursor: psycopg.Cursor[tuple[object, ...]]) -> None:
        cursor.execute(
            f"create table epochal.{OLD} partition of epochal.lines"
            " for values from ('2020-01-01 00:00Z') to ('2020-01-02 00:00Z')"
        )
        cursor.execute("update epochal.lines set received = '2020-01-01 12:00Z'")

    runs.database.run(work)


def test_a_partition_goes_when_all_its_lines_are_sealed(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    move_to_the_past(runs)
    assert drop_partitions(runs.database) == []
    assert Sealer(runs, NOW).seal_next()
    inbox.append("one", STEM, first=20, lines=lines(20, 30))
    assert drop_partitions(runs.database) == [OLD]
    assert len(runs.lines("one", STEM, first=0).splitlines()) == 20
    assert len(runs.lines("one", STEM, first=20).splitlines()) == 10


def test_a_partition_that_is_in_use_waits(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    move_to_the_past(runs)
    Sealer(runs, NOW).seal_next()
    with psycopg.connect(cluster.address) as reading:
        reading.execute(f"select from epochal.{OLD}")
        assert drop_partitions(runs.database) == []
    assert drop_partitions(runs.database) == [OLD]


def test_objects_go_after_the_recovery_window(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    Sealer(runs, NOW).seal_next()
    before = keys(runs)
    inbox.append("one", STEM, first=20, lines=lines(20, 30))
    Sealer(runs, NOW).seal_next()
    after = keys(runs) - before
    age(runs, RECOVERY_S - 60.0)
    assert sweep(runs) == 0
    age(runs, 120.0)
    assert sweep(runs) == 1
    assert keys(runs) == after


def test_an_object_that_somebody_has_again_stays(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    Sealer(runs, NOW).seal_next()
    (key,) = keys(runs)
    put_object(runs, key, tmp_path)  # a hub that was too slow
    put_object(runs, "p/one/blobs/abandoned", tmp_path)
    age(runs, RECOVERY_S + 60.0)
    assert sweep(runs) == 1
    assert keys(runs) == {key}


def test_nothing_is_left_of_an_erased_run(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    sha256 = hashlib.sha256(b"0123").hexdigest()
    inbox.put_file("one", "blobs", "x", b"01", offset=0, size=4, sha256=sha256)
    Sealer(runs, NOW).seal_next()
    runs.bucket.put("p/one/parts.json", b"{}")
    runs.remove("one")
    runs.erase("one")
    sweep(runs)
    assert "p/one/parts.json" not in keys(runs)
    age(runs, RECOVERY_S + 60.0)
    sweep(runs)
    assert keys(runs) == set()


def test_a_new_run_of_the_same_name_keeps_its_files(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    runs.remove("one")
    runs.erase("one")
    inbox.register("two", {"id": "two", "name": "one", "project": "p"})
    runs.bucket.put("p/one/parts.json", b"{}")
    sweep(runs)
    assert keys(runs) == {"p/one/parts.json"}


@pytest.mark.parametrize("hours", [23, 25])
def test_an_upload_is_given_up_after_a_day(cluster: Cluster, hours: int) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    sent = {"size": 4, "sha256": hashlib.sha256(b"0123").hexdigest()}
    inbox.put_file("one", "blobs", "x", b"01", offset=0, **sent)  # type: ignore[arg-type]
    age(runs, hours * 3600.0)
    runs.drop_uploads(after_s=86_400.0)
    have = 2 if hours < 24 else 0
    assert inbox.put_file("one", "blobs", "x", b"", offset=0, **sent) == have  # type: ignore[arg-type]
    inbox.put_file("one", "blobs", "x", b"01"[have:], offset=have, **sent)  # type: ignore[arg-type]
    assert inbox.put_file("one", "blobs", "x", b"23", offset=2, **sent) == 4  # type: ignore[arg-type]
    age(runs, RECOVERY_S + 60.0)
    sweep(runs)
    assert runs.file("one", "blobs", "x", offset=0) == b"0123"


def test_hubs_maintain_a_cluster_by_themselves(cluster: Cluster) -> None:
    hubs = [cluster.hub(), cluster.hub()]
    inbox = cluster.inbox(hubs[0])
    told: list[str] = []
    register(inbox)
    register(inbox, "newer")
    inbox.append("newer", STEM, first=0, lines=b'{"log":"run","t":1,"v":99}\n')
    inbox.append("one", STEM, first=0, lines=lines(0, 20) + FINISH)
    age(hubs[0], 3700.0)
    bucket = hubs[0].bucket
    counters = HubCounters()
    tasks = [Maintenance(runs, tell=told.append, counters=counters) for runs in hubs]
    with tasks[0].running(), tasks[1].running():
        wait_for(lambda: "bucket.json" in keys(hubs[0]))
        wait_for(lambda: hubs[0].state("one").segments)
        wait_for(lambda: read_parts(bucket, "p/one").parts[STEM].sealed == 21)
        wait_for(lambda: 'epochal_hub_stored_bytes{project="p"} ' in counters.text())
        wait_for(lambda: "\nepochal_hub_sealing_leases 1\n" in counters.text())  # of the newer run
    assert read_bucket(bucket).projects.keys() == {"p"}
    assert any("sealing" in line and "newer Epochal" in line for line in told)
