"""What a hub keeps of all metrics of a run answers lists, whose runs nobody has copied."""

from __future__ import annotations

from pathlib import Path

import pytest

import epochal
from epochal.errors import FormatError
from epochal.journal.layout import RunFolder
from epochal.journal.summaries import fold_and_write
from epochal.store.bucket_runs import bucket_store
from epochal.store.cluster.catalog import ClusterCatalog
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.store import Store
from tests.doubles.cluster import STEM, Cluster, lines, register

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)


def summarised(root: Path, *, value: float, steps: int = 1) -> RunFolder:
    """A run with more metrics than its summary has."""
    with epochal.init("p", dir=root, console=False, companion=False) as run:
        for step in range(steps):
            run.log({f"metric_{number:02d}": value for number in range(30)}, step=step)
    folder = RunFolder(run.dir)
    assert fold_and_write(folder, most_bytes=1 << 20)
    return folder


def ids(store: Store, query: str) -> list[str]:
    return [run.id for run in store.runs(query)]


def test_a_filter_on_any_metric_needs_no_records(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    for run_id, value in (("low", 1.0), ("high", 9.0)):
        folder = summarised(tmp_path / run_id, value=value)
        register(inbox, run_id)
        runs.put_metrics(run_id, folder.metrics.read_bytes())
        runs.put_summary(run_id, folder.summary.read_bytes())
    store = Store(ClusterCatalog(runs, cache=tmp_path / "cache"))
    assert ids(store, "metric_29 < 5") == ["low"]  # none of its lines was sent
    publisher = Publisher(runs, index_every_s=0.0)
    publisher.publish_runs()
    publisher.publish_indexes()
    bucket = bucket_store(cluster.bucket, cache=tmp_path / "reader")
    assert ids(bucket, "metric_29 < 5") == ["low"]


def test_a_run_is_read_where_its_metrics_are_older_than_its_summary(
    cluster: Cluster, tmp_path: Path
) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    folder = summarised(tmp_path / "one", value=1.0, steps=2)
    register(inbox)
    for name in folder.parts():
        inbox.append("one", name.stem, first=0, lines=folder.part_path(name).read_bytes())
    before = summarised(tmp_path / "before", value=9.0)
    runs.put_metrics("one", before.metrics.read_bytes())
    runs.put_summary("one", folder.summary.read_bytes())
    store = Store(ClusterCatalog(runs, cache=tmp_path / "cache"))
    assert ids(store, "metric_29 < 5") == ["one"]


def test_lines_of_a_damaged_object_are_not_given_out(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    assert Sealer(runs, NOW).seal_next()
    inbox.append("one", STEM, first=20, lines=lines(20, 22))
    assert runs.lines("one", STEM, first=5) == lines(5, 20)
    (stored,) = runs.bucket.list("p/one/segments/")
    runs.bucket.put(stored.key, runs.bucket.get(stored.key)[:-1] + b"x", replace=True)
    with pytest.raises(FormatError, match="damaged"):
        runs.lines("one", STEM, first=5)
