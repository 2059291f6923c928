"""Opens what a hub keeps: a folder, or a database and a bucket that several hubs share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from epochal.errors import UsageError
from epochal.hub.ledger import Ledger, only_hub
from epochal.hub.limits import Budget
from epochal.hub.maintenance import Maintenance
from epochal.hub.retention import Retention, read_rules
from epochal.hub.serving import FolderRuns, HubRuns, SharedRuns, Task, open_noting
from epochal.settings import cache_folder
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.store import Store

# The document that says which bucket belongs to a catalog.
BUCKET = ("hub", "bucket")


@dataclass(frozen=True, slots=True)
class OpenedHub:
    """What a hub serves; ``place`` is what people call it."""

    place: str
    runs: HubRuns
    ledger: Ledger
    tasks: Sequence[Task]


@contextlib.contextmanager
def open_folder_hub(
    root: Path, *, most: float | None, most_per_writer: float | None, tell: Callable[[str], object]
) -> Iterator[OpenedHub]:
    """The hub over a folder, which only one process may be."""
    root.mkdir(parents=True, exist_ok=True)
    with only_hub(root), contextlib.closing(Ledger(root)) as ledger:
        budget = Budget(root, ledger, most=most, most_per_writer=most_per_writer)
        rules = read_rules(root)
        runs = FolderRuns(root, budget.charge)
        opening = partial(open_noting, runs, ledger, runs.whole)
        locked = runs.inbox.locked
        retention = Retention(rules, opening, ledger, budget, locked=locked, tell=tell)
        yield OpenedHub(str(root), runs, ledger, [retention])


@contextlib.contextmanager
def open_shared_hub(
    catalog: str, bucket: str | None = None, *, tell: Callable[[str], object] = lambda _line: None
) -> Iterator[OpenedHub]:
    """One of the hubs over a database and a bucket; makes the tables of an empty database.

    The first hub says which bucket it is, and all others have the same.
    """
    with contextlib.closing(Database(catalog)) as database:
        database.prepare()
        ledger = Ledger(ClusterDocuments(database))
        opened = open_bucket(_bucket_of(ledger, bucket, database.address))
        cluster = ClusterRuns(database, opened)
        runs, tasks = SharedRuns(cluster, cache=cache_folder()), [Maintenance(cluster, tell=tell)]
        try:
            yield OpenedHub(f"{database.address} and {opened.address}", runs, ledger, tasks)
        finally:
            runs.close()


@contextlib.contextmanager
def open_cluster(catalog: str, bucket: str) -> Iterator[ClusterRuns]:
    """The runs of a database and a bucket, while no hub serves them."""
    with contextlib.closing(Database(catalog)) as database:
        database.prepare()
        address = _bucket_of(Ledger(ClusterDocuments(database)), bucket, database.address)
        yield ClusterRuns(database, open_bucket(address))


def _bucket_of(ledger: Ledger, bucket: str | None, catalog: str) -> str:
    """The address of the bucket that belongs to a catalog."""
    known = ledger.documents.get(*BUCKET)
    if known is None:
        if bucket is None:
            raise UsageError(f"no hub has run over {catalog} yet: start one with --bucket.")
        ledger.documents.put(*BUCKET, {"address": bucket.rstrip("/")})
        return bucket
    address = str(known["address"])
    if bucket is not None and bucket.rstrip("/") != address:
        raise UsageError(f"the files of {catalog} are in {address}, not in {bucket}.")
    return address


@contextlib.contextmanager
def open_hub(hub: str) -> Iterator[tuple[Ledger, Store]]:
    """What a hub keeps, for a command beside it: its folder, or the address of its catalog."""
    if "://" in hub:
        with open_shared_hub(hub) as opened:
            yield opened.ledger, open_noting(opened.runs, opened.ledger, opened.runs.whole)
        return
    root = Path(hub).expanduser()
    if not root.is_dir():
        raise UsageError(f"--hub: there is no folder {hub!r}.")
    with contextlib.closing(Ledger(root)) as ledger:
        runs = FolderRuns(root)
        yield ledger, open_noting(runs, ledger, runs.whole)
