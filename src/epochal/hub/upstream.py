"""Where a hub stores runs, when its folder is only a working copy of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from epochal.shipping.protocol import FileKind


class Upstream(Protocol):
    """Where a hub stores what it acknowledges, when its folder is only a working copy of that.

    Each call returns when what it was given is stored, and raises ``OSError`` when it is not.
    """

    def fetch(self, run_id: str, *, lines: bool = True) -> Path | None:
        """Have what is stored of a run in the folder, its lines unless they are not wanted.

        The run's place in it; None where there is no such run.
        """

    def is_held(self, run_id: str) -> bool:
        """Whether the lines of a run are in the folder."""

    def fetch_changed(self) -> None:
        """Have the identity of every run in the folder, and new lines of those that are held."""

    def lock(self, run_id: str) -> AbstractContextManager[Any]:
        """What is held by whoever changes the copy of a run; one thread may take it twice."""

    def register(self, run_id: str, identity: Mapping[str, Any], place: Path) -> None:
        """Store who a run is, whose copy lies in this folder; one that was deleted is back."""

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> None:
        """Store lines of a part."""

    def put_file(self, run_id: str, kind: FileKind, name: str, path: Path) -> None:
        """Store a file that is whole."""

    def put_live(self, run_id: str, name: str, readings: bytes) -> None:
        """Store the newest readings of a machine."""

    def put_labels(self, run_id: str, labels: Mapping[str, Any]) -> None:
        """Store the labels of a run."""

    def blobs(self, run_id: str) -> dict[str, int]:
        """The blobs that are stored, with their sizes in bytes."""

    def fetch_blob(self, run_id: str, name: str) -> None:
        """Have a blob in the folder, if there is one of this name."""
