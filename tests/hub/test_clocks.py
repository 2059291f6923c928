"""Hubs whose clocks are wrong: what several of them decide goes by the clock of the database."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from epochal.hub.endpoints import HubControls
from epochal.hub.ledger import Ledger
from epochal.hub.serving import SharedRuns
from epochal.server.access import OWNER
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.cluster.sweeping import drop_partitions, sweep_objects
from tests.doubles.cluster import STEM, Cluster, lines, opened_cluster
from tests.servers.postgres import new_database

AT_ONCE = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)


@pytest.mark.parametrize("skew_s", [-6 * 3600.0, -600.0, 600.0, 8 * 86_400.0])
def test_a_hub_with_a_wrong_clock_decides_as_the_others(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew_s: float
) -> None:
    true_time = time.time

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: true_time() + seconds)

    with opened_cluster(new_database(postgres), str(tmp_path / "bucket")) as cluster:
        runs, controls = opened(cluster, tmp_path)
        identity = {"id": "one", "name": "one", "project": "p", "launch_id": "job-7"}
        runs.inbox.register("one", identity)
        runs.inbox.append("one", STEM, first=0, lines=lines(0, 20))
        request = controls.ask("one", "checkpoint", OWNER)
        assert request is not None
        stored = ClusterRuns(Database(cluster.address), open_bucket(cluster.bucket))
        assert Sealer(stored, AT_ONCE).seal_next()
        runs.inbox.append("one", STEM, first=20, lines=lines(20, 30))
        assert Sealer(stored, AT_ONCE).seal_next()  # the first object waits to be swept
        runs.inbox.append("one", STEM, first=30, lines=lines(30, 40))

        shift(skew_s)
        other, other_controls = opened(cluster, tmp_path)
        assert other.inbox.launched("job-7", "p", age_s=5.0) == "one"
        assert [taken.id for taken in other_controls.take("one")] == [request.id]
        assert not Sealer(stored).seal_next()
        assert sweep_objects(stored.database, stored.bucket) == 0
        assert drop_partitions(stored.database) == []
        assert Publisher(stored).publish_runs() == 1
        assert stored.lines("one", STEM, first=30) == lines(30, 40)
        stored.database.close()


def opened(cluster: Cluster, folder: Path) -> tuple[SharedRuns, HubControls]:
    """A hub with what people ask of trainings."""
    database = Database(cluster.address)
    database.prepare()
    runs = SharedRuns(ClusterRuns(database, open_bucket(cluster.bucket)), cache=folder / "cache")
    ledger = Ledger(ClusterDocuments(database))
    for closing in (database, ledger, runs):
        cluster.stack.enter_context(contextlib.closing(closing))
    return runs, HubControls(ledger, is_allowed=True, clock=runs.now)
