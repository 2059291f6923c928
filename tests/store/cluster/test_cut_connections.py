"""Connections to the database and the bucket that are cut anywhere: within answers, and commits."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from benchmarks.hub.faults import Wire
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.store.bucket import BucketError, open_bucket
from epochal.store.cluster.database import CatalogAwayError, Database
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.published import read_index, read_parts
from tests.doubles.cluster import STEM, Cluster, age, lines, register
from tests.servers.s3 import S3Server
from tests.store.cluster.test_faults import NUM_SEEDS

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)
NUM_RUNS, NUM_LINES, AT_ONCE = 4, 120, 6


def until_done(work: Callable[[], object]) -> None:
    """Do something until it succeeds."""
    while True:
        try:
            work()
        except (CatalogAwayError, BucketError):
            continue
        return


def send(inbox: ClusterInbox, run_id: str) -> None:
    """Send lines from where the hub says that they end."""
    have = 0

    def append() -> None:
        nonlocal have
        while have < NUM_LINES:
            last = min(have + AT_ONCE, NUM_LINES)
            answer = inbox.append(run_id, STEM, first=have, lines=lines(have, last))
            assert answer >= have, "lines that were acknowledged are lost"
            have = answer

    until_done(lambda: register(inbox, run_id))
    until_done(append)


def maintain(runs: ClusterRuns) -> None:
    """Seal and publish what is there."""
    sealer, publisher = Sealer(runs, NOW), Publisher(runs, index_every_s=0.0)
    while sealer.seal_next() or publisher.publish_runs():
        pass
    publisher.publish_indexes()


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_what_was_acknowledged_over_cut_connections_is_there_once(
    cluster: Cluster, s3: S3Server, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = cluster.hub()  # its bucket has the endpoint of now
    chance = random.Random(seed)
    parts = urlsplit(cluster.address)
    server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
    to_database = Wire(server, limit=lambda: chance.uniform(300, 9_000))
    to_bucket = Wire(int(s3.endpoint.rpartition(":")[2]), limit=lambda: chance.uniform(300, 9_000))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{to_bucket.port}")
    database = Database(f"postgresql://postgres@127.0.0.1:{to_database.port}{parts.path}")
    runs = ClusterRuns(database, open_bucket(cluster.bucket))
    inbox = ClusterInbox(runs, collect_s=0.0)
    names = [f"run{number}" for number in range(NUM_RUNS)]
    with ThreadPoolExecutor(NUM_RUNS + 1) as pool:
        sending = [pool.submit(send, inbox, name) for name in names]
        while not all(future.done() for future in sending):
            pool.submit(until_done, lambda: maintain(runs)).result()
            age(direct, 700.0)  # leases of answers that were lost
        for future in sending:
            future.result()
    until_done(lambda: maintain(runs))
    inbox.close()
    database.close()
    assert to_database.num_cut + to_bucket.num_cut > 10
    to_database.close()
    to_bucket.close()
    age(direct, 700.0)
    maintain(direct)
    for name in names:
        assert direct.lines(name, STEM, first=0) == lines(0, NUM_LINES)
        assert read_parts(direct.bucket, f"p/{name}").parts[STEM].sealed == NUM_LINES
    assert {run.id for run in read_index(direct.bucket, "p")} == set(names)
