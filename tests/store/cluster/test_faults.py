"""Whichever operation of a hub fails, and however: what was acknowledged is there once.

Every operation fails in turn, in one way each; the next seed takes the next way. Six seeds, as in
``EPOCHAL_TEST_SEEDS=6``, are all ways.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from epochal.errors import EpochalError, RunNotFoundError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.store.bucket import BucketError, open_bucket
from epochal.store.cluster.database import CatalogAwayError, Database
from epochal.store.cluster.lines import Block, append_lines
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns, StoredFile
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.cluster.sweeping import RECOVERY_S, drop_partitions, sweep_objects
from epochal.store.published import RUN_FILES, read_index, read_parts
from tests.doubles.cluster import FINISH, STEM, Cluster, age, lines, register
from tests.doubles.companions import wait_for
from tests.doubles.faults import KINDS, Faults, FaultyBucket, PostgresWire

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)
NUM_SEEDS = int(os.environ.get("EPOCHAL_TEST_SEEDS", "1"))
BLOB = b"0123456789"
DIGEST = hashlib.sha256(BLOB).hexdigest()
AWAY = (CatalogAwayError, BucketError)
TOUCH = "update epochal.parts set received = now() where run = %s"


@dataclass
class Hub:
    """A hub with what it does by itself; ``faults`` is what happens to it."""

    runs: ClusterRuns
    inbox: ClusterInbox
    faults: Faults

    def seal(self) -> None:
        while Sealer(self.runs, NOW).seal_next():
            pass

    def publish(self) -> None:
        publisher = Publisher(self.runs, index_every_s=0.0)
        while publisher.publish_runs():
            pass
        publisher.publish_indexes()

    def clean(self) -> None:
        self.runs.drop_uploads(after_s=RECOVERY_S)
        sweep_objects(self.runs.database, self.runs.bucket)
        drop_partitions(self.runs.database)


@contextlib.contextmanager
def opened(cluster: Cluster, faults: Faults) -> Iterator[Hub]:
    wire = PostgresWire(cluster.address, faults)
    database = Database(wire.address)
    runs = ClusterRuns(database, FaultyBucket(open_bucket(cluster.bucket), faults))
    inbox = ClusterInbox(runs, collect_s=0.0)
    try:
        yield Hub(runs, inbox, faults)
    finally:
        inbox.close()
        database.close()
        wire.close()


@dataclass
class Life:
    """A run from its start to its end, and one that is erased; what was acknowledged of it."""

    name: str
    acknowledged: int = 0
    is_blob_acknowledged: bool = False

    @property
    def erased(self) -> str:
        return f"{self.name}-erased"

    def steps(self) -> list[Callable[[Hub], object]]:
        """What is done, and done again until it succeeds."""
        return [
            lambda hub: self.send(hub, 20),
            self.send_blob,
            self.describe,
            self.send_other,
            lambda hub: hub.seal(),
            lambda hub: hub.publish(),
            lambda hub: self.send(hub, 30),
            lambda hub: hub.seal(),
            lambda hub: self.erase(hub),
            lambda hub: hub.publish(),
            lambda hub: hub.clean(),
        ]

    def send(self, hub: Hub, until: int) -> None:
        """Send lines from where the hub says that they end, as senders do."""
        acknowledged = self.acknowledged  # others may send meanwhile
        state = hub.inbox.register(self.name, self._identity(self.name))
        have = state.parts[STEM].lines if STEM in state.parts else 0
        assert have >= acknowledged, "lines that were acknowledged are lost"
        self.acknowledged = have  # also by an answer that was lost, or to somebody else
        for last in (until - 5, until):
            if have < last:
                body = lines(have, last) + FINISH * (last == 30)
                have = hub.inbox.append(self.name, STEM, first=have, lines=body)
                self.acknowledged = have

    def send_blob(self, hub: Hub) -> None:
        have = 0
        while have < len(BLOB):
            have = hub.inbox.put_file(
                *(self.name, "blobs", "x.bin", BLOB[have : have + 5]),
                offset=have,
                size=len(BLOB),
                sha256=DIGEST,
            )
        self.is_blob_acknowledged = True

    def describe(self, hub: Hub) -> None:
        hub.inbox.put_labels(self.name, {"tags": ["a"], "notes": "good"}, {})
        summary = {"id": self.name, "name": self.name, "project": "p", "step": 29, "is_ended": True}
        hub.runs.put_summary(self.name, json.dumps(summary).encode())

    def send_other(self, hub: Hub) -> None:
        hub.inbox.register(self.erased, self._identity(self.erased))
        hub.inbox.append(self.erased, STEM, first=0, lines=lines(0, 20))

    def erase(self, hub: Hub) -> None:
        with contextlib.suppress(RunNotFoundError):  # another hub has erased it
            hub.runs.remove(self.erased)
            hub.runs.erase(self.erased)

    def _identity(self, name: str) -> dict[str, object]:
        return {"id": name, "name": name, "project": "p", "created": 1.0}


def live(life: Life, cluster: Cluster, other: Hub, faults: Faults) -> None:
    """Live a life with a hub that a fault happens to; ``other`` goes on where it ends."""
    with opened(cluster, faults) as hub:
        for step in life.steps():
            faults.meanwhile = partial(beside, partial(repeated, step, other), other)
            try:
                step(hub)
            except AWAY:
                repeated(step, other)
            if faults.is_dead:
                hub = other


def repeated(step: Callable[[Hub], object], hub: Hub) -> None:
    """Do a step at another hub, after leases of the first have ended."""
    age(hub.runs, 700.0)
    step(hub)


def beside(work: Callable[[], object], hub: Hub) -> None:
    """Do work until it is done, or waits for a lock of whoever asked for it; then it goes on."""
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive() and not is_waiting(hub.runs):
        time.sleep(0.002)


def found_lines(runs: ClusterRuns, run_id: str) -> list[bytes]:
    found: list[bytes] = []
    while piece := runs.lines(run_id, STEM, first=len(found)):
        found += piece.splitlines(keepends=True)
    return found


def check(life: Life, cluster: Cluster) -> None:
    """What a fresh reader finds of a life that has ended: in the database, and in the bucket."""
    fresh, expected = cluster.hub(), [*(lines(0, 30) + FINISH).splitlines(keepends=True)]
    assert (life.acknowledged, life.is_blob_acknowledged) == (31, True)
    assert found_lines(fresh, life.name) == expected
    assert fresh.file(life.name, "blobs", "x.bin", offset=0) == BLOB
    run = fresh.find(life.name)
    assert run is not None
    parts = read_parts(fresh.bucket, run.folder)
    (part,), (blob,) = parts.parts.values(), parts.blobs.values()
    assert part.object is not None
    sealed = StoredFile(part.object, part.size, part.sha256, part.sealed)
    assert [*fresh.sealed_lines(sealed)] == expected
    assert fresh.bucket.get(blob.object) == BLOB
    listed = [entry for entry in read_index(fresh.bucket, "p") if entry.id == life.name]
    assert [bytes(entry.labels) for entry in listed] == [b'{"tags":["a"],"notes":"good"}']
    keys = {stored.key for stored in fresh.bucket.list(f"{run.folder}/")}
    files = {f"{run.folder}/{name}" for name in RUN_FILES}
    assert keys - files == {part.object, blob.object}
    assert not [*fresh.bucket.list(f"p/{life.erased}/")]
    fresh.database.close()


def tidy(hub: Hub) -> None:
    """What hubs do by themselves in the weeks after."""
    for _ in range(2):
        age(hub.runs, RECOVERY_S + 700.0)
        hub.seal()
        hub.publish()
        hub.clean()


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_a_fault_at_any_operation_loses_and_doubles_nothing(
    folder_cluster: Cluster, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.store.cluster.database._FIRST_PAUSE_S", 0.0005)
    folder_cluster.hub()  # it makes the tables
    lives: list[Life] = []
    faults = Faults()
    with opened(folder_cluster, Faults()) as other:
        while faults.is_done:
            faults = Faults(len(lives), KINDS[(len(lives) + seed) % len(KINDS)])
            lives.append(Life(f"run{faults.number}"))
            live(lives[-1], folder_cluster, other, faults)
        tidy(other)
    assert len(lives) > 80
    for life in lives:
        check(life, folder_cluster)


# -- conflicts of transactions --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deadlock", "serialization failure"])
def test_a_conflict_is_resolved_and_fails_nobody(folder_cluster: Cluster, kind: str) -> None:
    """Both are real: the database ends the hub's transaction, and the hub does it again."""
    address = folder_cluster.address
    with psycopg.connect(address, autocommit=True) as owner:
        level = "read committed" if kind == "deadlock" else "repeatable read"
        for setting in (f"default_transaction_isolation = '{level}'", "deadlock_timeout = '20ms'"):
            owner.execute(f"alter database {owner.info.dbname} set {setting}")
    runs = folder_cluster.hub()
    inbox = folder_cluster.inbox(runs)
    for run_id in ("one", "two", "removed", "locked"):
        register(inbox, run_id)
        inbox.append(run_id, STEM, first=0, lines=lines(0, 5))
    runs.remove("removed")
    blocks = [
        Block("one", STEM, 5, lines(5, 9)),
        Block("unknown", STEM, 0, lines(0, 9)),
        Block("removed", STEM, 5, lines(5, 9)),
        Block("two", STEM, 7, lines(7, 9)),  # behind a gap
        Block("one", STEM, 7, lines(7, 12)),
    ]
    tries: list[int] = []

    def store(cursor: Cursor) -> list[int | EpochalError]:
        tries.append(len(tries))
        if kind == "deadlock":
            answers = append_lines(cursor, blocks)
            if len(tries) == 1:
                waiting = pool.submit(other.execute, TOUCH, ("one",))
                wait_for(lambda: is_waiting(runs) or waiting.done())
                waiting.add_done_callback(lambda _: other.commit())
            cursor.execute(TOUCH, ("locked",))
            return answers
        cursor.execute("select 1")
        if len(tries) == 1:
            other.execute(TOUCH, ("one",))
            other.commit()
        return append_lines(cursor, blocks)

    with psycopg.connect(address) as other, ThreadPoolExecutor(2) as pool:
        other.execute("set deadlock_timeout = '10min'")  # it is the hub that gives up
        other.execute(TOUCH, ("locked",))
        answers = runs.database.run(store)
    assert tries == [0, 1]
    assert [answer if isinstance(answer, int) else type(answer) for answer in answers] == [
        *(9, RunNotFoundError, RunNotFoundError, 5, 12)
    ]
    assert runs.lines("one", STEM, first=0) == lines(0, 12)
    assert runs.lines("two", STEM, first=0) == lines(0, 5)


def is_waiting(runs: ClusterRuns) -> bool:
    """Whether a transaction waits for another one."""
    text = "select exists (select from pg_locks where not granted)"
    row = runs.database.run(lambda cursor: cursor.execute(text).fetchone())
    return row is not None and bool(row[0])
