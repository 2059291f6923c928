"""Clusters over a real database and a real bucket, and runs that senders send to them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from epochal.hub.cluster_inbox import ClusterInbox
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.runs import ClusterRuns

STEM = "loop.0001.0000"
FINISH = b'{"log":"finish","t":99,"status":"finished"}\n'


def lines(first: int, last: int) -> bytes:
    """Records of steps, one line each."""
    return b"".join(
        b'{"log":"metrics","t":1,"step":%d,"m":{"loss":%d.5}}\n' % (step, step)
        for step in range(first, last)
    )


@dataclass
class Cluster:
    """``address`` is of the database, ``bucket`` of the bucket."""

    address: str
    bucket: str
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def hub(self) -> ClusterRuns:
        """What one more hub has of the cluster."""
        database = Database(self.address)
        self.stack.callback(database.close)
        database.prepare()
        return ClusterRuns(database, open_bucket(self.bucket))

    def inbox(self, runs: ClusterRuns) -> ClusterInbox:
        """What receives runs at one hub."""
        inbox = ClusterInbox(runs, collect_s=0.0)
        self.stack.callback(inbox.close)
        return inbox


def register(inbox: ClusterInbox, run_id: str = "one", *, project: str = "p") -> str:
    """Register a run with the name of its id."""
    inbox.register(run_id, {"id": run_id, "name": run_id, "project": project, "created": 1.0})
    return run_id


def age(runs: ClusterRuns, seconds: float) -> None:
    """Have everything in the database look so much older."""

    def work(cursor: Any) -> None:
        for table, columns in {
            "parts": ("received", "unsealed", "lease_until"),
            "runs": ("lease_until",),
            "uploads": ("started",),
            "sweep": ("since",),
            "indexes": ("written", "lease_until"),
        }.items():
            sets = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in columns)
            cursor.execute(f"update epochal.{table} set {sets}", {"s": seconds})

    runs.database.run(work)


@contextlib.contextmanager
def opened_cluster(address: str, bucket: str) -> Iterator[Cluster]:
    """A cluster over an empty database and a prefix of a bucket that nobody else uses."""
    cluster = Cluster(address, f"{bucket}/{secrets.token_hex(4)}")
    with cluster.stack:
        yield cluster
