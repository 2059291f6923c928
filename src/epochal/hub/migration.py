"""Copies all that a hub has between a folder and a database, in either direction.

What is there already is left alone, so it can be repeated: after a fault, or after runs have grown.
Deleted runs stay where they are.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import cast

import msgspec

from epochal.boards import read_boards, save_board
from epochal.errors import EpochalError
from epochal.hub.clickhouse_inbox import ClickHouseInbox
from epochal.hub.documents import Documents
from epochal.hub.endpoints import AnyInbox
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import KINDS
from epochal.journal.layout import run_folders, slugify
from epochal.journal.line import encode
from epochal.segments.read import Segment
from epochal.shipping.offering import json_or_empty
from epochal.shipping.protocol import CHUNK_BYTES, PartState
from epochal.store.clickhouse.source import RUN, TRASH
from epochal.store.clickhouse.store import BOARD, ClickHouseStore
from epochal.store.clickhouse.tables import Database

# Runs that are copied at once: rows of all of them are stored by one insert.
_THREADS = 32
_LINES_AT_ONCE = 2000
_TELL_EVERY_S = 5.0


def copy_hub(
    root: Path,
    documents: Documents,
    database: Database,
    *,
    is_out: bool = False,
    tell: Callable[[str], object],
) -> int:
    """Copy a hub's folder into a database, or out of it; how many runs could not be copied.

    ``documents`` are those of the folder.
    """
    folder, tables = Inbox(root), ClickHouseInbox(database)
    if is_out:
        deleted = {run_id for run_id, _ in database.documents.all(TRASH)}
        run_ids = [run_id for run_id, _ in database.documents.all(RUN) if run_id not in deleted]
        failed = _copy_runs(run_ids, tables, folder, tell)
        for stored in ClickHouseStore(database).boards.list():
            place = root / slugify(stored.project)
            save_board(place, stored.project, stored.board, None, replaces=True)
    else:
        identities = [json_or_empty(one.identity) for one in run_folders(root)]
        run_ids = [str(identity.get("id")) for identity in identities]
        failed = _copy_runs(run_ids, folder, tables, tell)
        for project in {str(identity.get("project")) for identity in identities}:
            for stored in read_boards(root / slugify(project), project):
                key, body = f"{project}\n{stored.board.name}", msgspec.to_builtins(stored.board)
                database.documents.put(BOARD, key, body)
    tables.close()
    both: tuple[Documents, Documents] = (documents, database.documents)
    source, target = reversed(both) if is_out else both
    for kind in KINDS:
        there = {key for key, _ in target.all(kind)}
        for key, body in source.all(kind):
            if key not in there:
                target.put(kind, key, body)
    return failed


def _copy_runs(
    run_ids: list[str], source: AnyInbox, target: AnyInbox, tell: Callable[[str], object]
) -> int:
    """Copy runs at the same time; how many could not be copied."""
    failed, told_s = 0, time.monotonic()
    if num_copies := len(run_ids) - len(set(run_ids)):
        tell(f"{num_copies:,} runs have the id of another run: only one of each is copied.")
    with ThreadPoolExecutor(_THREADS) as pool:
        started = {pool.submit(_copy, one, source, target): one for one in set(run_ids)}
        for number, future in enumerate(as_completed(started), 1):
            try:
                future.result()
            except (EpochalError, OSError) as error:
                failed += 1
                tell(f"{started[future]}: {error}")
            if time.monotonic() - told_s >= _TELL_EVERY_S:
                told_s = time.monotonic()
                tell(f"{number:,} of {len(started):,} runs")
    return failed


def _copy(run_id: str, source: AnyInbox, target: AnyInbox) -> None:
    here = source.state(run_id)
    there = target.register(run_id, here.identity)
    for stem, part in here.parts.items():
        before, have = -1, there.parts.get(stem, PartState(0)).lines
        while before < have < part.lines:  # a part that is sealed there takes no more lines
            lines = source.lines(run_id, stem, first=have)
            before, have = have, target.append(run_id, stem, first=have, lines=lines)
    for file in here.segments:  # only folders have them
        path = cast(Inbox, source).folder_of(run_id)
        assert path is not None
        stem = file.removesuffix(".parquet")
        state = there.parts.get(stem, PartState(0))
        have = state.lines
        with Segment(path / "segments" / file) as segment:
            encoded = (encode(record) for _, record in segment.records(first=state.records))
            while lines := b"".join(islice(encoded, _LINES_AT_ONCE)):
                have = target.append(run_id, stem, first=have, lines=lines)
    for blob, size in here.blobs.items():
        if there.blobs.get(blob) != size:
            _copy_blob(run_id, blob, size, source, target)
    if here.labels != there.labels:
        target.put_labels(run_id, here.labels, {})


def _copy_blob(run_id: str, blob: str, size: int, source: AnyInbox, target: AnyInbox) -> None:
    digest, have = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as copy:
        while have < size and (piece := source.file(run_id, "blobs", blob, offset=have)):
            digest.update(piece)
            have += copy.write(piece)
        have, sha256, is_done = 0, digest.hexdigest(), False
        while not is_done:
            copy.seek(have)
            piece, offset = copy.read(CHUNK_BYTES), have
            have = target.put_file(
                run_id, "blobs", blob, piece, offset=offset, size=size, sha256=sha256
            )
            is_done = have == size or not piece
