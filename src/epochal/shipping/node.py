"""Ships the ranks of a node that shares no disk with rank 0 into the run of rank 0 on the hub.

Such ranks write into ``.launch/<launch id>``, and know no run. Rank 0 of the same launch ships its
run, so the hub knows which one it is. The companion of the node ships, and its telemetry too.
"""

from __future__ import annotations

import time

from epochal.journal.layout import LOOP, PartName, RunFolder, parse_part_name
from epochal.journal.line import decode
from epochal.records import finite
from epochal.shipping.client import NotYetError
from epochal.shipping.protocol import RunState
from epochal.shipping.shipper import Shipper


class NodeShipper(Shipper):
    """Ships parts and blobs of a folder without ``run.json``; labels are rank 0's."""

    _attempt = 1
    _launch: tuple[str, str, float] | None = None

    def _registered(self) -> RunState | None:
        if self._run_id is not None and not self._is_asked_again:
            return None
        if self._launch is None:
            self._launch = _launch_of(self._folder)
        launch_id, project, t = self._launch
        run_id = self._client.launched(launch_id, project, age_s=max(time.time() - t, 0.0))
        state = self._client.state(run_id)
        if self._run_id != run_id:
            self._attempt = _last_attempt(state)
        self._run_id = run_id
        self._is_forgotten = False
        return state

    def _stem(self, name: PartName) -> str:
        return name._replace(attempt=self._attempt).stem

    def _exchange_labels(self) -> None:
        pass


def _launch_of(folder: RunFolder) -> tuple[str, str, float]:
    """Launch id, project and start of the ranks that write here, as their first record has it."""
    for name in folder.parts():
        with open(folder.part_path(name), "rb") as file:
            header = decode(file.readline())
        if header is not None and header.get("id"):  # a companion's does not say it
            start = finite(header.get("t")) or time.time()
            return str(header.get("id", "")), str(header.get("project", "")), start
    raise NotYetError(f"{folder.path} has no records yet.")


def _last_attempt(state: RunState) -> int:
    """The attempt that rank 0 is in, by the parts that the hub has of it."""
    names = [
        *(parse_part_name(f"{stem}.jsonl", ".jsonl") for stem in state.parts),
        *(parse_part_name(name, ".parquet") for name in state.segments),
    ]
    found = [name.attempt for name in names if name is not None and name.writer == LOOP]
    if not found:
        raise NotYetError("the hub has no records of rank 0 yet.")
    return max(found)
