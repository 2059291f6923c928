"""Stores what a hub receives; the copy of the run in its folder follows.

``epochal.hub.inbox.Upstream`` says what a hub asks for.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.journal.layout import RunFolder
from epochal.shipping.offering import named_part
from epochal.shipping.protocol import FileKind
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.tables import DELETED, IDENTITY, LABELS, SEALED


class ClickHouseUpstream:
    """The tables of a cluster, as a hub stores into them."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._tables = copies.tables

    def fetch(self, run_id: str, *, lines: bool = True) -> Path | None:
        """Have what is stored of a run in the folder; the run's place in it."""
        return self._copies.fetch(run_id, lines=lines)

    def is_held(self, run_id: str) -> bool:
        """Whether the lines of a run are in the folder."""
        return self._copies.is_held(run_id)

    def fetch_changed(self) -> None:
        """Have the identity of every run in the folder, and new lines of those that are held."""
        self._copies.fetch_changed()

    def lock(self, run_id: str) -> threading.RLock:
        """What is held by whoever changes the copy of a run."""
        return self._copies.lock(run_id)

    def register(self, run_id: str, identity: Mapping[str, Any], place: Path) -> None:
        """Store who a run is, unless the same is stored; one that was deleted is back."""
        self._copies.folders.note(run_id, place)
        self._copies.put_fact(run_id, IDENTITY, transfer.encoded(identity))
        if self._copies.is_deleted(run_id):
            self._copies.put_fact(run_id, DELETED, "")

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> None:
        """Store lines of a part."""
        self._tables.append(run_id, stem, first=first, lines=lines)
        self._copies.note_lines(run_id, stem, first + lines.count(b"\n"))

    def put_file(self, run_id: str, kind: FileKind, name: str, path: Path) -> None:
        """Store a blob; of a segment the lines that are not stored yet."""
        if kind == "segments":
            part = named_part(name.removesuffix(".parquet"))
            first = self._copies.num_lines(run_id, part.stem)
            for lines in transfer.lines_of_segment(path, first=first):
                self.append(run_id, part.stem, first=first, lines=lines)
                first += lines.count(b"\n")
            self._copies.put_fact(run_id, f"{SEALED}{part.stem}", str(first))
        else:
            transfer.send_blob(self._tables, run_id, path, path.stat().st_size, name=name)

    def put_live(self, run_id: str, name: str, readings: bytes) -> None:
        """Store the newest readings of a machine."""
        self._tables.put_live(run_id, name, readings)

    def put_labels(self, run_id: str, labels: Mapping[str, Any]) -> None:
        """Store the labels of a run."""
        self._copies.put_fact(run_id, LABELS, transfer.encoded(labels))

    def blobs(self, run_id: str) -> dict[str, int]:
        """The blobs that are stored, with their sizes in bytes."""
        return self._tables.blobs.sizes(run_id)

    def fetch_blob(self, run_id: str, name: str) -> None:
        """Have a blob in the folder, if there is one of this name."""
        place = self._copies.place_of(run_id)
        if place is not None:
            transfer.fetch_blob(self._tables, run_id, RunFolder(place), name)
