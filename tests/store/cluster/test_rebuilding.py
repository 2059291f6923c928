"""A database that was lost is made anew from the bucket, and senders go on where it ends."""

from __future__ import annotations

import hashlib

import pytest

from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.store.cluster.publishing import Publisher, check_bucket
from epochal.store.cluster.rebuilding import rebuild
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.published import read_index
from tests.doubles.cluster import STEM, Cluster, lines, register
from tests.servers.postgres import copied_database, new_database

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)


def seal_and_publish(runs: ClusterRuns) -> None:
    publisher = Publisher(runs, index_every_s=0.0)
    while Sealer(runs, NOW).seal_next() or publisher.publish_runs():
        pass
    publisher.publish_indexes()


@pytest.fixture
def lost(cluster: Cluster, postgres: str) -> ClusterRuns:
    """A hub over an empty database and a bucket with three runs, one of them in the trash."""
    before = cluster.hub()
    inbox = cluster.inbox(before)
    for run_id, project in (("one", "p"), ("two", "p"), ("three", "q")):
        register(inbox, run_id, project=project)
        inbox.append(run_id, STEM, first=0, lines=lines(0, 20))
    inbox.put_labels("one", {"notes": "good"}, {})
    before.put_summary("one", b'{"id":"one","name":"a","project":"p","step":3}')
    before.put_metrics("one", b"{}")
    sha256 = hashlib.sha256(b"0123").hexdigest()
    inbox.put_file("one", "blobs", "x.bin", b"0123", offset=0, size=4, sha256=sha256)
    before.remove("two")
    seal_and_publish(before)
    inbox.append("one", STEM, first=20, lines=lines(20, 25))
    before.database.close()
    cluster.address = new_database(postgres)
    return cluster.hub()


def test_runs_are_there_again_as_they_were_published(
    lost: ClusterRuns, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = ["--catalog", cluster.address, "--bucket", lost.bucket.address]
    assert main(["hub", "rebuild", *addresses]) == 0
    assert "3 runs added." in capsys.readouterr().out
    one = lost.find("one")
    assert one is not None
    assert (one.labels, one.project, one.removed) == (b'{"notes":"good"}', "p", None)
    assert b'"step":3' in (one.summary or b"")
    assert lost.metrics("one") == b"{}"
    assert len(lost.lines("one", STEM, first=0).splitlines()) == 20
    assert lost.file("one", "blobs", "x.bin", offset=0) == b"0123"
    assert lost.find("two", is_removed=True) is not None
    lost.restore("two")
    assert len(lost.lines("two", STEM, first=0).splitlines()) == 20


def test_senders_go_on_behind_what_is_sealed(lost: ClusterRuns, cluster: Cluster) -> None:
    rebuild(lost)
    inbox = cluster.inbox(lost)
    state = inbox.register("one", {"id": "one", "name": "one", "project": "p", "created": 1.0})
    assert state.parts[STEM].lines == 20
    assert inbox.append("one", STEM, first=20, lines=lines(20, 30)) == 30
    seal_and_publish(lost)
    assert len(lost.lines("one", STEM, first=0).splitlines()) == 30


def test_a_database_with_runs_is_left_alone(lost: ClusterRuns, cluster: Cluster) -> None:
    inbox = cluster.inbox(lost)
    register(inbox, "other", project="q")
    inbox.register("one", {"id": "one", "name": "new", "project": "q"})
    with pytest.raises(UsageError, match="has 2 runs already"):
        rebuild(lost)
    assert rebuild(lost, adds=True) == (2, 0, 1, [])
    assert rebuild(lost, adds=True) == (0, 0, 3, [])
    one = lost.find("one")
    assert one is not None
    assert one.project == "q"


def test_a_database_of_yesterday_gets_what_the_bucket_has_more(cluster: Cluster) -> None:
    before = cluster.hub()
    inbox = cluster.inbox(before)
    for run_id in ("one", "same"):
        register(inbox, run_id)
        inbox.append(run_id, STEM, first=0, lines=lines(0, 10))
    seal_and_publish(before)
    inbox.append("one", STEM, first=10, lines=lines(10, 15))
    before.database.close()
    yesterday = copied_database(cluster.address)
    today = cluster.hub()
    inbox = cluster.inbox(today)
    register(inbox, "two")
    inbox.append("one", STEM, first=15, lines=lines(15, 30))
    inbox.append("one", "loop.0002.0000", first=0, lines=lines(0, 3))
    inbox.put_labels("one", {"notes": "good"}, {})
    seal_and_publish(today)
    replaced = today.stored_file("same", "segments", f"{STEM}.parquet")

    cluster.address = yesterday
    restored = cluster.hub()
    assert rebuild(restored, adds=True) == (1, 1, 2, [])
    assert rebuild(restored, adds=True) == (0, 0, 3, [])
    assert len(restored.lines("one", STEM, first=0).splitlines()) == 30
    assert len(restored.lines("one", "loop.0002.0000", first=0).splitlines()) == 3
    assert restored.state("one").labels == {"notes": "good"}
    assert restored.stored_file("same", "segments", f"{STEM}.parquet") == replaced
    inbox = cluster.inbox(restored)
    assert inbox.append("one", STEM, first=30, lines=lines(30, 32)) == 32
    inbox.append("same", STEM, first=10, lines=lines(10, 20))
    seal_and_publish(restored)
    assert restored.lines("one", STEM, first=0) == lines(0, 32)
    assert restored.lines("same", STEM, first=0) == lines(0, 20)


def test_a_bucket_of_another_database_is_left_alone(lost: ClusterRuns, cluster: Cluster) -> None:
    inbox = cluster.inbox(lost)
    register(inbox, "other")
    with pytest.raises(UsageError, match="runs of another database: 'epochal hub rebuild'"):
        seal_and_publish(lost)
    assert {run.id for run in read_index(lost.bucket, "p")} == {"one", "two"}
    rebuild(lost, adds=True)
    seal_and_publish(lost)
    assert {run.id for run in read_index(lost.bucket, "p")} == {"one", "two", "other"}


def test_a_bucket_of_a_newer_state_is_left_alone(lost: ClusterRuns) -> None:
    rebuild(lost)
    seal_and_publish(lost)
    text = "update epochal.version set written = written - 1"
    lost.database.run(lambda cursor: cursor.execute(text))
    with pytest.raises(UsageError, match="a newer state of this database"):
        check_bucket(lost)


def test_a_run_that_cannot_be_read_is_left_out_and_named(lost: ClusterRuns) -> None:
    lost.bucket.delete(["q/three/parts.json"])
    found = rebuild(lost)
    assert (found.num_added, found.num_known) == (2, 0)
    assert "q/three is left out" in found.problems[0]
    with pytest.raises(UsageError, match="another database"):
        check_bucket(lost)
    assert rebuild(lost, adds=True, leaves_out=True).num_known == 2
    check_bucket(lost)
