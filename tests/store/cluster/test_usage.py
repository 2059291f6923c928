"""What is counted as stored is what is stored, whichever hub stores it and how often."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.limits import FullError, Limits
from epochal.store.cluster.rebuilding import rebuild
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.cluster.usage import bytes_by
from tests.doubles.cluster import STEM, Cluster, lines, register
from tests.hub.opened_hubs import sealed

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)
_STORED = """
select (select coalesce(sum(object_bytes), 0) from epochal.parts)
    + (select coalesce(sum(num_bytes), 0) from epochal.blobs)
    + (select coalesce(sum(num_bytes), 0) from epochal.lines join epochal.parts using (run, stem)
        where first >= sealed)
"""


def counted(runs: ClusterRuns) -> int:
    """The bytes that are counted, which must be those that are there."""

    def read(cursor: Any) -> tuple[int, ...]:
        text = "select coalesce(sum(stored_bytes), 0) from epochal.runs"
        (of_runs,) = cursor.execute(text).fetchone()
        by_writer, by_project = bytes_by(cursor, "writer"), bytes_by(cursor, "project")
        (stored,) = cursor.execute(_STORED).fetchone()
        return int(of_runs), sum(by_writer.values()), sum(by_project.values()), int(stored)

    found = set(runs.database.run(read))
    assert len(found) == 1, found
    return found.pop()


def put(inbox: ClusterInbox, run_id: str, kind: str, name: str, data: bytes) -> int:
    sha256 = hashlib.sha256(data).hexdigest()
    return inbox.put_file(run_id, kind, name, data, offset=0, size=len(data), sha256=sha256)  # type: ignore[arg-type]


def test_sealing_again_and_again_counts_a_part_once(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    data = lines(0, 2000)
    assert inbox.append("one", STEM, first=0, lines=data) == 2000
    assert counted(runs) == len(data)
    for step in range(2000, 2004):
        assert Sealer(runs, NOW).seal_next()
        assert counted(runs) < len(data) / 2
        inbox.append("one", STEM, first=step, lines=lines(step, step + 1))
    segment = sealed(tmp_path, lines(0, 2004))
    for _ in range(2):
        assert put(inbox, "one", "segments", f"{STEM}.parquet", segment) == len(segment)
        assert put(inbox, "one", "blobs", "x.bin", b"x" * 1000) == 1000
        assert counted(runs) == len(segment) + 1000
    runs.remove("one")
    assert counted(runs) == len(segment) + 1000
    runs.erase("one")
    assert counted(runs) == 0


def test_hubs_that_work_at_once_count_together(cluster: Cluster) -> None:
    hubs = [cluster.hub() for _ in range(2)]
    inboxes = [cluster.inbox(runs) for runs in hubs]
    ids = [register(inboxes[0], f"run{number}", project=f"p{number % 2}") for number in range(6)]

    def send(number: int) -> None:
        runs, inbox = hubs[number % 2], inboxes[number % 2]
        for step in range(0, 60, 10):
            run_id = ids[(number + step // 10) % len(ids)]
            have = runs.sizes([run_id]).get(run_id, 0)
            inbox.append(run_id, STEM, first=have, lines=lines(have, have + 10))
            put(inbox, run_id, "blobs", f"{number}-{step}.bin", b"x" * 100)
            Sealer(runs, NOW).seal_next()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(4)))
    assert counted(hubs[0]) > 0


def test_hubs_exceed_a_limit_by_what_each_stores_at_once(cluster: Cluster) -> None:
    most, block = 20_000, lines(0, 10)
    runs = [cluster.hub() for _ in range(2)]
    inboxes = [ClusterInbox(one, limits=Limits(most=most), collect_s=0.0) for one in runs]
    for number in range(4):
        register(inboxes[0], f"run{number}")

    def send(number: int) -> bool:
        inbox, have = inboxes[number % 2], 0
        try:
            for _ in range(1000):
                have = inbox.append(f"run{number}", STEM, first=have, lines=block)
        except FullError:
            return True
        return False

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(send, range(4)))
    for inbox in inboxes:
        inbox.close()
    assert most - len(block) < counted(runs[0]) <= most + 8 * len(block)


def test_what_is_rebuilt_counts_for_those_who_sent_it(cluster: Cluster, postgres: str) -> None:
    from epochal.store.cluster.publishing import Publisher
    from tests.servers.postgres import new_database

    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    for run_id, writer in (("one", "alice"), ("two", "bob")):
        identity = {"id": run_id, "name": run_id, "project": "p", "created": 1.0}
        inbox.register(run_id, identity, writer=writer)
        put(inbox, run_id, "blobs", "x.bin", b"x" * 500)
    publisher = Publisher(runs, index_every_s=0.0)
    while publisher.publish_runs():
        pass
    publisher.publish_indexes()
    cluster.address = new_database(postgres)
    again = cluster.hub()
    rebuild(again)
    assert counted(again) == 1000
    used = again.database.run(lambda cursor: bytes_by(cursor, "writer"))
    assert used == {"alice": 500, "bob": 500}
