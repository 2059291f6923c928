"""The runs of a bucket as its hub has published them, read without that hub; nothing is changed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from epochal.errors import RunNotFoundError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.boards import Board, StoredBoard
from epochal.shipping.protocol import CHUNK_BYTES, FileKind, RunState, SegmentState, is_file_name
from epochal.store.bucket import Bucket, ObjectNotFoundError, open_bucket
from epochal.store.cluster.catalog import ClusterCatalog
from epochal.store.cluster.runs import News, StoredRun
from epochal.store.published import (
    PublishedBlob,
    PublishedPart,
    PublishedParts,
    PublishedRun,
    read_bucket,
    read_index,
    read_metrics,
    read_parts,
    summary_of,
)
from epochal.store.store import Store

# A hub writes indexes at most once a minute.
_LOOK_EVERY_S = 10.0
# The last runs whose parts were read.
_MOST_PARTS = 64


class BucketRuns:
    """The runs of a bucket; see ``epochal.store.cluster.catalog.StoredRuns``.

    Several threads may use it. It is as of the last look, which ``news`` takes now and then.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        # By project the number of its index, and the runs of all of them by their ids.
        self._numbers: dict[str, int] = {}
        self._runs: Mapping[str, StoredRun] = {}
        self._look_due_s = 0.0
        self._num_looks = 0
        self._parts: OrderedDict[str, PublishedParts] = OrderedDict()

    @property
    def address(self) -> str:
        """The address of the bucket."""
        return self._bucket.address

    # -- lists ------------------------------------------------------------------------------------

    def news(self, seen: int | None, known: Callable[[], Mapping[str, int]]) -> News:
        """The runs that are not as they are known."""
        with self._lock:
            self._look()
            runs, number = self._runs, self._num_looks
        if seen == number:
            return News(number, (), ())
        there = known()
        changed = [run for run in runs.values() if there.get(run.id) != run.changed]
        return News(number, changed, there.keys() - runs.keys())

    def _look(self) -> None:
        """Read the indexes that are new."""
        if time.monotonic() < self._look_due_s:
            return
        numbers = dict(read_bucket(self._bucket).projects)
        self._look_due_s = time.monotonic() + _LOOK_EVERY_S
        if numbers == self._numbers:
            return
        new = {name for name in numbers if numbers[name] != self._numbers.get(name)}
        kept = numbers.keys() - new
        runs = {run_id: run for run_id, run in self._runs.items() if run.project in kept}
        for project in sorted(new):
            runs |= {run.id: _stored(run, project) for run in read_index(self._bucket, project)}
        self._runs, self._numbers = runs, numbers
        self._num_looks += 1

    def _known(self) -> Mapping[str, StoredRun]:
        with self._lock:
            if not self._num_looks:
                self._look()
            return self._runs

    def find(self, run_id: str, *, is_removed: bool = False) -> StoredRun | None:
        """The run of an id, or the one of it in the trash; None where there is none."""
        run = self._known().get(run_id)
        return run if run is not None and (run.removed is not None) == is_removed else None

    def removed(self) -> list[StoredRun]:
        """The runs in the trash, the newest deletion first."""
        removed = [run for run in self._known().values() if run.removed is not None]
        return sorted(removed, key=lambda run: run.removed or 0.0, reverse=True)

    def sizes(self, runs: Sequence[str]) -> dict[str, int]:
        """Nothing: a part that was sealed is a change of its run."""
        return {}

    def stored_bytes(self, runs: Sequence[str]) -> dict[str, int]:
        """How much some runs took when they were published."""
        known = self._known()
        return {run_id: known[run_id].stored_bytes for run_id in runs if run_id in known}

    # -- one run ----------------------------------------------------------------------------------

    def state(self, run_id: str) -> RunState:
        """What was published of a run: the lines that are sealed, and blobs."""
        run = self._present(run_id)
        parts = self._read_parts(run)
        identity = msgspec.json.decode(self._bucket.get(f"{run.folder}/run.json"))
        return RunState(
            id=run_id,
            project=str(identity.get("project", "")),
            folder=run.folder,
            parts={},
            segments={
                f"{stem}.parquet": SegmentState(part.size, part.sealed)
                for stem, part in parts.parts.items()
                if part.object is not None
            },
            blobs={name: blob.size for name, blob in parts.blobs.items()},
            labels=msgspec.json.decode(run.labels),
            identity=identity,
        )

    def metrics(self, run_id: str) -> bytes | None:
        """What was published of all series of a run; None where nothing was."""
        return read_metrics(self._bucket, self._present(run_id).folder)

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Nothing: lines that are not sealed are in the database of the hub."""
        return b""

    def file(self, run_id: str, kind: FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a segment or a blob from an offset on."""
        if not is_file_name(kind, name):
            raise UsageError(f"{name!r} is not a name of a file in {kind}.")
        run = self._present(run_id)
        parts = self._parts.get(run_id) or self._read_parts(run)
        file: PublishedBlob | PublishedPart | None = (
            parts.blobs.get(name)
            if kind == "blobs"
            else parts.parts.get(name.removesuffix(".parquet"))
        )
        if file is None or file.object is None:
            raise RunNotFoundError(f"there is no {kind}/{name} in this run.")
        end = min(offset + CHUNK_BYTES, file.size)
        return (
            self._bucket.get_ranges(file.object, [range(offset, end)])[0] if offset < end else b""
        )

    def _present(self, run_id: str) -> StoredRun:
        run = self.find(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run with the id {run_id!r} in {self.address}.")
        return run

    def _read_parts(self, run: StoredRun) -> PublishedParts:
        try:
            parts = read_parts(self._bucket, run.folder)
        except ObjectNotFoundError as error:
            raise RunNotFoundError(f"the run {run.id} is no longer in {self.address}.") from error
        with self._lock:
            self._parts[run.id] = parts
            self._parts.move_to_end(run.id)
            if len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
        return parts

    # -- what a bucket does not take --------------------------------------------------------------

    def put_summary(self, run_id: str, summary: bytes) -> None:
        """Nothing: whoever reads the run again makes it again."""

    def edit_labels(
        self, run_id: str, edit: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> object:
        """Refused."""
        self._refuse()

    def remove(self, run_id: str) -> None:
        """Refused."""
        self._refuse()

    def restore(self, run_id: str) -> None:
        """Refused."""
        self._refuse()

    def erase(self, run_id: str) -> None:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self.address} can only be read: its hub changes runs.")

    def boards(self, projects: Callable[[], Collection[str]]) -> BucketBoards:
        """The boards, of which there are none."""
        return BucketBoards(self._refuse)


class BucketBoards:
    """The boards of a bucket: they are in the database of its hub."""

    def __init__(self, refuse: Callable[[], NoReturn]) -> None:
        self._refuse = refuse

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        """None."""
        return ()

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        """Refused."""
        self._refuse()

    def remove(self, project: str, name: str, revision: str | None) -> None:
        """Refused."""
        self._refuse()


def bucket_store(address: str, *, cache: Path, rules: RuleSettings | None = None) -> Store:
    """The store over the runs of a bucket, or of a folder that is the copy of one."""
    return Store(ClusterCatalog(BucketRuns(open_bucket(address)), cache=cache, rules=rules))


def _stored(run: PublishedRun, project: str) -> StoredRun:
    return StoredRun(
        id=run.id,
        project=project,
        slug=run.slug,
        identity=bytes(run.identity),
        labels=bytes(run.labels),
        summary=summary_of(run),
        writer=run.writer,
        stored_bytes=run.stored_bytes,
        received=run.received,
        removed=run.removed,
        changed=run.changed,
    )
