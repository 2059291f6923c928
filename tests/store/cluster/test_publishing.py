"""A bucket is readable without its hubs, whichever of them filled it and whenever one ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.store.bucket import BucketError, ObjectNotFoundError
from epochal.store.bucket_runs import bucket_store
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns, StoredFile
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.published import BUCKET_FILE, INDEX_NAME, read_bucket, read_index, read_parts
from tests.doubles.cluster import FINISH, STEM, Cluster, age, lines, register

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)
BLOB = StoredFile("p/one/blobs/x-1.bin", 3, "1" * 64)


def publish(runs: ClusterRuns) -> int:
    """Publish all that is due; how many runs were."""
    publisher, num_runs = Publisher(runs, index_every_s=0.0), 0
    while some := publisher.publish_runs():
        num_runs += some
    publisher.publish_indexes()
    return num_runs


def seal(runs: ClusterRuns) -> None:
    while Sealer(runs, NOW).seal_next():
        pass


def send(inbox: ClusterInbox, run_id: str = "one", *, project: str = "p") -> None:
    register(inbox, run_id, project=project)
    inbox.append(run_id, STEM, first=0, lines=lines(0, 20))


def copied(runs: ClusterRuns, folder: Path) -> Path:
    """A copy of all objects, as a file tool makes it."""
    for stored in runs.bucket.list():
        path = folder / stored.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(runs.bucket.get(stored.key))
    return folder


def test_parts_name_the_objects_and_what_is_not_sealed(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    send(inbox)
    seal(runs)
    inbox.append("one", STEM, first=20, lines=lines(20, 25))
    inbox.append("one", "findings.0001.0000", first=0, lines=lines(0, 2))
    runs.put_blob("one", "x.bin", BLOB)
    publish(runs)
    found = read_parts(runs.bucket, "p/one")
    part = found.parts[STEM]
    assert (part.records, part.sealed) == (25, 20)
    assert part.object is not None
    assert len(runs.bucket.get(part.object)) == part.size
    assert (found.parts["findings.0001.0000"].object, found.blobs["x.bin"].size) == (None, 3)
    assert msgspec.json.decode(runs.bucket.get("p/one/run.json"))["name"] == "one"


def test_only_what_readers_of_the_bucket_see_is_due(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    send(inbox)
    assert (publish(runs), publish(runs)) == (1, 0)
    runs.put_summary("one", b'{"id":"one","name":"a","project":"p","step":3}')
    inbox.append("one", STEM, first=20, lines=FINISH)
    assert publish(runs) == 0
    inbox.put_labels("one", {"notes": "good"}, {})
    assert publish(runs) == 1
    runs.put_blob("one", "x.bin", BLOB)
    assert publish(runs) == 0
    seal(runs)
    assert publish(runs) == 1
    assert read_parts(runs.bucket, "p/one").blobs.keys() == {"x.bin"}
    runs.put_blob("one", "y.bin", BLOB)
    assert publish(runs) == 1
    runs.put_summary("one", b'{"id":"one","name":"a","project":"p","is_ended":true}')
    assert publish(runs) == 1
    assert b"is_ended" in runs.bucket.get("p/one/summary.json")


def test_an_index_has_the_runs_of_its_project(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    for run_id, project in (("one", "p"), ("two", "p"), ("three", "q")):
        send(inbox, run_id, project=project)
    publish(runs)
    numbers = read_bucket(runs.bucket).projects
    assert numbers.keys() == {"p", "q"}
    assert {run.id for run in read_index(runs.bucket, "p")} == {"one", "two"}
    runs.remove("two")
    publish(runs)
    after = read_bucket(runs.bucket).projects
    assert (after["p"] != numbers["p"], after["q"] == numbers["q"]) == (True, True)
    removed = {run.id: run.removed is not None for run in read_index(runs.bucket, "p")}
    assert removed == {"one": False, "two": True}
    runs.remove("three")
    publish(runs)
    runs.erase("three")
    publish(runs)
    assert read_bucket(runs.bucket).projects.keys() == {"p"}


def test_an_index_is_written_now_and_then(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    publisher = Publisher(runs)
    send(inbox)
    publisher.publish_runs()
    publisher.publish_indexes()
    send(inbox, "two")
    publisher.publish_runs()
    publisher.publish_indexes()
    assert len(read_index(runs.bucket, "p")) == 1
    age(runs, 61.0)
    publisher.publish_indexes()
    assert len(read_index(runs.bucket, "p")) == 2


def test_several_hubs_publish_at_once(cluster: Cluster) -> None:
    hubs = [cluster.hub() for _ in range(3)]
    inbox = cluster.inbox(hubs[0])
    for number in range(60):
        send(inbox, f"run{number}")
    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(publish, hubs))
    publish(hubs[0])
    assert sum(counts) == 60
    assert len(read_index(hubs[0].bucket, "p")) == 60
    assert all(read_parts(hubs[0].bucket, f"p/run{number}") for number in range(60))


def test_a_hub_that_was_too_slow_has_its_work_done_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, other = cluster.hub(), cluster.hub()
    inbox = cluster.inbox(runs)
    send(inbox)
    put = runs.bucket.put

    def overtaken(key: str, data: bytes | Path, *, replace: bool = False) -> bool:
        if key.endswith("labels.json"):
            inbox.put_labels("one", {"notes": "new"}, {})
            age(other, 400.0)
            assert publish(other) == 1
        return put(key, data, replace=replace)

    monkeypatch.setattr(runs.bucket, "put", overtaken)
    Publisher(runs).publish_runs()
    assert b"new" not in runs.bucket.get("p/one/labels.json")
    assert publish(other) == 1
    assert b"new" in runs.bucket.get("p/one/labels.json")


_KILLED = """
import os, signal, sys
from epochal.store.bucket import ObjectBucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns
class Dying(ObjectBucket):
    def put(self, key, data, *, replace=False):
        if key.endswith("parts.json"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().put(key, data, replace=replace)
Publisher(ClusterRuns(Database(sys.argv[1]), Dying(sys.argv[2]))).publish_runs()
"""


def test_what_is_due_is_published_at_once_when_the_bucket_is_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = cluster.hub()
    send(cluster.inbox(runs))
    publisher = Publisher(runs, index_every_s=0.0)

    def fail(*_: object, **__: object) -> None:
        raise BucketError("the bucket is away.")

    for work in (publisher.publish_runs, publisher.publish_indexes):
        with monkeypatch.context() as patched:
            patched.setattr(runs.bucket, "put", fail)
            with pytest.raises(BucketError):
                work()
        assert not Publisher(runs).publish_runs()  # another hub waits for the end of the lease
        work()
    assert len(read_index(runs.bucket, "p")) == 1


def test_another_hub_publishes_what_a_killed_one_did_not(cluster: Cluster) -> None:
    runs = cluster.hub()
    send(cluster.inbox(runs))
    command = [sys.executable, "-c", _KILLED, cluster.address, cluster.bucket]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with pytest.raises(ObjectNotFoundError):
        read_parts(runs.bucket, "p/one")
    age(runs, 400.0)
    assert publish(runs) == 1
    assert read_parts(runs.bucket, "p/one").id == "one"


# -- reading --------------------------------------------------------------------------------------


def test_a_bucket_is_read_without_its_hub(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    send(inbox)
    inbox.put_labels("one", {"notes": "good"}, {})
    seal(runs)
    inbox.append("one", STEM, first=20, lines=lines(20, 30))
    publish(runs)
    runs.database.close()
    with bucket_store(cluster.bucket, cache=tmp_path / "cache") as store:
        (run,) = store.runs("notes == 'good'")
        assert run.info.step == 19  # what came since is in the database
        assert run.series("loss").values.tolist() == [step + 0.5 for step in range(20)]
        with pytest.raises(UsageError, match="can only be read"):
            run.relabel(lambda labels: labels)


def test_readers_see_what_is_published_later(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.store.bucket_runs._LOOK_EVERY_S", 0.0)
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    send(inbox)
    seal(runs)
    publish(runs)
    with bucket_store(cluster.bucket, cache=tmp_path / "cache") as store:
        assert len(store.run("one").series("loss")) == 20
        inbox.append("one", STEM, first=20, lines=lines(20, 30))
        send(inbox, "two")
        seal(runs)
        publish(runs)
        assert store.refresh() >= {"one", "two"}
        run = store.run("one")
        run.refresh()
        assert len(run.series("loss")) == 30
        runs.remove("two")
        publish(runs)
        store.refresh()
        assert [run.id for run in store.runs()] == ["one"]


def test_commands_read_a_bucket(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20) + FINISH)
    seal(runs)
    publish(runs)
    for words in (["ls", cluster.bucket], ["ls", "--dir", cluster.bucket]):
        assert main(words) == 0
        shown = capsys.readouterr()
        assert "finished" in shown.out
        assert "what its hub has sealed" in shown.err
    assert main(["series", "one", "loss", "--dir", cluster.bucket]) == 0
    assert "20 points" in capsys.readouterr().out
    assert main(["manage", "du", "--json", "--dir", cluster.bucket]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["disk"] == {"p": {"runs": runs.stored_bytes(["one"])["one"]}}
    assert main(["trash", "put", "one", "--dir", cluster.bucket]) == 2
    assert main(["demo", "--dir", cluster.bucket]) == 2
    assert "can only be read" in capsys.readouterr().err


def test_a_copy_of_a_bucket_is_readable(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    send(cluster.inbox(runs))
    seal(runs)
    publish(runs)
    opened = epochal.open(copied(runs, tmp_path / "copy"))
    (run,) = opened
    assert len(run.series("loss")) == 20


def test_no_run_and_no_project_has_the_name_of_a_file(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    assert runs.present(register(inbox, INDEX_NAME)).folder == f"p/{INDEX_NAME}-2"
    with pytest.raises(UsageError, match=r"no project can be named 'bucket\.json'"):
        register(inbox, "two", project=BUCKET_FILE)
