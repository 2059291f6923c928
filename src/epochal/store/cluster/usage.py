"""How much a cluster stores: of each run, and in all by who sent it and by its project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

_ADD = """
with changed as (
    update epochal.runs set stored_bytes = stored_bytes + num_bytes,
        received = case when %s then now() else received end
    from unnest(%s::text[], %s::int8[]) as added(run, num_bytes) where runs.id = added.run
    returning writer, project, num_bytes
)
insert into epochal.usage as known
select writer, project, sum(num_bytes) from changed group by writer, project
order by writer, project
on conflict (writer, project) do update
set stored_bytes = known.stored_bytes + excluded.stored_bytes
"""
_UNCOUNTED = """
select id, (
    coalesce((select sum(object_bytes) from epochal.parts where run = id), 0)
    + coalesce((select sum(num_bytes) from epochal.blobs where run = id), 0)
    + coalesce((
        select sum(num_bytes) from epochal.lines join epochal.parts using (run, stem)
        where run = id and first >= sealed
    ), 0) - stored_bytes
)::int8 from epochal.runs where id = any(%s)
"""


def add_bytes(cursor: Cursor, added: Mapping[str, int], *, is_received: bool) -> None:
    """Count what some runs take more than before; ``is_received``: their senders have sent it.

    In a transaction, this comes after what locks parts and before ``touch``.
    """
    runs = sorted(added)
    cursor.execute(
        "select 1 from epochal.runs where id = any(%s) order by id for no key update", (runs,)
    )
    cursor.execute(_ADD, (is_received, runs, [added[run] for run in runs]))


def count_again(cursor: Cursor, runs: Sequence[str]) -> None:
    """Count runs whose parts and blobs were changed without counting."""
    rows = cursor.execute(_UNCOUNTED, (list(runs),)).fetchall()
    add_bytes(cursor, dict(rows), is_received=False)


def bytes_by(cursor: Cursor, column: Literal["writer", "project"]) -> dict[str, int]:
    """How much is stored of each writer or in each project, runs in the trash included."""
    text = f"select {column}, sum(stored_bytes)::int8 from epochal.usage group by {column}"
    return dict(cursor.execute(text).fetchall())
