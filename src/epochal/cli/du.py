"""``epochal manage du``: what fills the disk."""

from __future__ import annotations

from epochal.cli.command import data_command, local_store, runs_dir
from epochal.cli.output import remark, said_json
from epochal.cli.table import say_table
from epochal.format import format_bytes
from epochal.store.local.disk_usage import KINDS, TRASH, disk_usage


@data_command
def command() -> None:
    """Show how many bytes runs and the trash take, by project and kind of file."""
    with local_store() as store:
        usage = disk_usage(store.runs(), store.trash.runs())
    kinds = [kind for kind in KINDS if usage.by_kind[kind]]
    projects = sorted(usage.by_project.items(), key=lambda one: one[1].total(), reverse=True)
    if said_json({"disk": {name: dict(found) for name, found in projects}}):
        return
    if not projects:
        remark(f"No runs in {runs_dir()} yet.")
        return
    rows = [("all projects", usage.by_kind), *projects] if len(projects) > 1 else projects
    header = ("PROJECT", *(kind.upper() for kind in kinds), "TOTAL")
    cells = [
        (name, *(format_bytes(found[kind]) for kind in kinds), format_bytes(found.total()))
        for name, found in rows
    ]
    say_table(header, cells, shrink=(0,), right=range(1, len(header)))
    remark("Checkpoints and files outside of run folders are not counted.")
    if usage.by_kind[TRASH]:
        remark("'epochal manage trash empty --older 30d' erases what was deleted long ago.")
