"""Opens what a hub keeps: a folder, or a database and a bucket that several hubs share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from epochal.hub.ledger import Ledger, only_hub
from epochal.hub.limits import Budget
from epochal.hub.retention import Retention, read_rules
from epochal.hub.serving import FolderRuns, HubRuns, SharedRuns, Task, open_noting
from epochal.settings import cache_folder
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.runs import ClusterRuns


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
def open_shared_hub(catalog: str, bucket: str) -> Iterator[OpenedHub]:
    """One of the hubs over a database and a bucket; makes the tables of an empty database."""
    with contextlib.closing(Database(catalog)) as database:
        database.prepare()
        opened = open_bucket(bucket)
        runs = SharedRuns(ClusterRuns(database, opened), cache=cache_folder())
        with contextlib.closing(Ledger(ClusterDocuments(database))) as ledger:
            yield OpenedHub(f"{database.address} and {opened.address}", runs, ledger, [])
