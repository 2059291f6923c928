"""Hubs over yesterday's database leave the bucket alone, until it was rebuilt from the bucket."""

from __future__ import annotations

import psycopg
import pytest

from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.maintenance import Maintenance
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.rebuilding import rebuild
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.cluster.sweeping import RECOVERY_S, sweep_objects
from epochal.store.published import read_index, read_parts
from tests.doubles.cluster import STEM, Cluster, age, lines, register
from tests.doubles.companions import wait_for

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)


def work(runs: ClusterRuns) -> None:
    """Seal and publish everything."""
    publisher = Publisher(runs, index_every_s=0.0)
    while Sealer(runs, NOW).seal_next() or publisher.publish_runs():
        pass
    publisher.publish_indexes()


def register_named(inbox: ClusterInbox, run_id: str, name: str) -> None:
    inbox.register(run_id, {"id": run_id, "name": name, "project": "p", "created": 1.0})


def objects(runs: ClusterRuns) -> dict[str, bytes]:
    return {stored.key: runs.bucket.get(stored.key) for stored in runs.bucket.list()}


@pytest.fixture
def restored(folder_cluster: Cluster, postgres: str) -> ClusterRuns:
    """A hub over yesterday's database, and a bucket with what was published until today."""
    runs = folder_cluster.hub()
    inbox = folder_cluster.inbox(runs)
    for run_id in ("one", "erased"):
        register(inbox, run_id)
        inbox.append(run_id, STEM, first=0, lines=lines(0, 20))
    work(runs)
    runs.remove("erased")
    runs.erase("erased")  # its name is free, and its files are going to be swept
    runs.database.close()
    name = str(psycopg.conninfo.conninfo_to_dict(folder_cluster.address)["dbname"])
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create database {name}_old template {name}")
    today = folder_cluster.hub()
    inbox = folder_cluster.inbox(today)
    inbox.append("one", STEM, first=20, lines=lines(20, 40))
    inbox.put_labels("one", {"notes": "good"}, {})
    register_named(inbox, "again", "erased")
    register(inbox, "two")
    for run_id in ("again", "two"):
        inbox.append(run_id, STEM, first=0, lines=lines(0, 20))
    work(today)
    today.database.close()
    folder_cluster.address = folder_cluster.address.replace(f"/{name}?", f"/{name}_old?")
    return folder_cluster.hub()


def test_a_restored_database_gets_what_the_bucket_has(
    restored: ClusterRuns, folder_cluster: Cluster
) -> None:
    before = objects(restored)
    inbox = folder_cluster.inbox(restored)
    register_named(inbox, "three", "two")  # a name that another run got after the backup
    for number in range(40):  # more changes than there were after the backup
        inbox.append("three", STEM, first=number, lines=lines(number, number + 1))
        inbox.put_labels("three", {"notes": str(number)}, {})
    age(restored, RECOVERY_S + 3700.0)
    told: list[str] = []
    with Maintenance(restored, tell=told.append).running():
        wait_for(lambda: sum("a newer state of this database" in line for line in told) == 2)
        wait_for(lambda: restored.state("three").segments)
    after = objects(restored)
    assert {key: after.get(key) for key in before} == before

    done = rebuild(restored, adds=True)
    assert (done.num_added, done.num_known, done.problems) == (2, 1, [])
    work(restored)
    age(restored, RECOVERY_S + 3700.0)
    sweep_objects(restored.database, restored.bucket)
    expected = {"one": 40, "two": 20, "again": 20, "three": 40}
    assert {run.id for run in read_index(restored.bucket, "p")} == expected.keys()
    for run_id, num_lines in expected.items():
        assert restored.lines(run_id, STEM, first=0) == lines(0, num_lines)
        part = read_parts(restored.bucket, restored.present(run_id).folder).parts[STEM]
        assert (part.sealed, part.object in objects(restored)) == (num_lines, True)
    one = restored.find("one")
    assert one is not None
    assert one.labels == b'{"notes":"good"}'
    assert rebuild(restored, adds=True).num_added == 0
