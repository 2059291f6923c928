"""Moves the runs of a hub between a folder and a ClickHouse cluster; derives its tables again.

Nothing is deleted where they come from. What is there already is not sent again, so a migration
that was interrupted goes on where it ended.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from epochal.errors import FormatError, UsageError
from epochal.health.rule_settings import reader_rules
from epochal.hub.ledger import FOLDER
from epochal.hub.shared_ledger import SharedLedger
from epochal.journal.layout import RunFolder, read_json, run_folders
from epochal.shipping.offering import PartCounts
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.connection import SCHEMES, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.store import ClickHouseStore
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


def reindex(address: str) -> tuple[int, list[str]]:
    """Make the derived tables again from the lines; how many runs, and a sentence for each gap."""
    with (
        contextlib.closing(Tables(parse_address(address))) as tables,
        tempfile.TemporaryDirectory(prefix="epochal-reindex-") as folder,
    ):
        faults = tables.reindex()
        copies = Copies(tables, Path(folder), rules=reader_rules())
        copies.fetch_changed()
        store = ClickHouseStore(copies, rules=reader_rules(), is_followed=True)
        run_ids = [run.own_id for run in store.runs()]
        for run_id in run_ids:
            copies.forget_row(run_id)
            copies.want_row(run_id)
            store.derive_rows()
            if not copies.is_current(run_id):
                faults.append(f"no row of the run {run_id} can be derived: it cannot be read.")
            with store.let_go(run_id) or contextlib.nullcontext():
                copies.evict(run_id)
        store.close()
    return len(run_ids), faults


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
            copies.fetch(run_id)
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
