"""Moves the runs of a hub between a folder and a ClickHouse cluster, and back.

Nothing is deleted where they come from. What is there already is not sent again, so a migration
that was interrupted goes on where it ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from epochal.errors import FormatError, UsageError
from epochal.hub.ledger import FOLDER
from epochal.hub.shared_ledger import SharedLedger
from epochal.journal.layout import RunFolder, read_json, run_folders
from epochal.shipping.offering import PartCounts
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.connection import SCHEMES, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.tables import DELETED, Tables
from epochal.store.local.trash import FolderTrash

Tell = Callable[[str], object]


def migrate(source: str, target: str, *, tell: Tell) -> int:
    """Have every run of one place in the other; how many runs. ``tell`` prints a line for each."""
    is_from, is_to = source.startswith(SCHEMES), target.startswith(SCHEMES)
    if is_from == is_to:
        raise UsageError("one of FROM and TO is a folder, the other clickhouse://….")
    if is_to:
        root = Path(source).expanduser()
        if not root.is_dir():
            raise UsageError(f"there is no folder {root}.")
        return _to_tables(root, target, tell)
    return _to_folder(source, Path(target).expanduser(), tell)


def _to_tables(root: Path, address: str, tell: Tell) -> int:
    counts = PartCounts()
    num_runs = 0
    with contextlib.closing(Tables(parse_address(address))) as tables:
        deleted = {Path(run.folder): run.deleted for run in FolderTrash([root]).runs()}
        for folder in (*run_folders(root), *map(RunFolder, deleted)):
            if not folder.identity.is_file():
                tell(f"{folder.path} has no run.json: it is left out.")
                continue
            run_id = transfer.send_run(tables, folder, counts)
            if folder.path in deleted:
                tables.put_fact(run_id, DELETED, repr(deleted[folder.path]))
            _check(tables, run_id, folder, counts)
            tell(f"{folder.path.parent.name}/{folder.path.name} is stored.")
            num_runs += 1
        if (root / FOLDER).is_dir():
            _exchange(root, tables)
    return num_runs


def _to_folder(address: str, root: Path, tell: Tell) -> int:
    counts = PartCounts()
    num_runs = 0
    with contextlib.closing(Tables(parse_address(address))) as tables:
        copies = Copies(tables, root)
        copies.fetch_changed()
        if copies.problems:
            raise FormatError(next(iter(copies.problems.values())))
        trashed = [RunFolder(Path(run.folder)) for run in FolderTrash([root]).runs()]
        for folder in (*run_folders(root), *trashed):
            run_id = str(read_json(folder.identity).get("id"))
            for name in tables.blobs.sizes(run_id):
                transfer.fetch_blob(tables, run_id, folder, name)
            _check(tables, run_id, folder, counts)
            tell(f"{folder.path.parent.name}/{folder.path.name} is complete.")
            num_runs += 1
        _exchange(root, tables)
    return num_runs


def _check(tables: Tables, run_id: str, folder: RunFolder, counts: PartCounts) -> None:
    """Raise unless both sides have the same number of lines of each part."""
    stored = {part.part: part.lines for part in tables.parts(run_id)}
    for name in folder.parts():
        have, _ = counts.whole(folder.part_path(name))
        if have != stored.get(name.stem, 0):
            raise FormatError(
                f"{folder.path} has {have:,} lines of {name.stem}, {tables.address} has"
                f" {stored.get(name.stem, 0):,}: migrate again when nobody writes to it."
            )


def _exchange(root: Path, tables: Tables) -> None:
    """Have tokens, owners and the audit log on both sides; the folder stays one of its own."""
    ledger = SharedLedger(root)
    try:
        ledger.exchange(tables)
        ledger.leave()
    finally:
        ledger.close()
