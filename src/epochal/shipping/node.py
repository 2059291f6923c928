"""Ships the ranks of a node that shares no disk with rank 0 into the run of rank 0 on the hub.

Such ranks write into ``.launch/<launch id>``, and know no run. Rank 0 of the same launch ships its
run, so the hub knows which one it is. ``python -m epochal.shipping.node FOLDER`` runs beside the
first rank of the node, and ends when everything is sent, or some time after that process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from epochal.errors import EpochalError
from epochal.journal.layout import LOOP, PartName, RunFolder, parse_part_name
from epochal.journal.line import decode
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.credentials import hub_token
from epochal.shipping.protocol import RunState
from epochal.shipping.shipper import Shipper
from epochal.shipping.worker import ShippingWorker

_LOOK_EVERY_S = 0.5


class NodeShipper(Shipper):
    """Ships parts and blobs of a folder without ``run.json``; labels are rank 0's."""

    _attempt = 1

    def _registered(self) -> RunState | None:
        if self._run_id is not None and not self._is_asked_again:
            return None
        launch_id, project, t = _launch_of(self._folder)
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
        if header is not None:
            t = header.get("t")
            start = float(t) if isinstance(t, (int, float)) else time.time()
            return str(header.get("id", "")), str(header.get("project", "")), start
    raise HubError(f"{folder.path} has no records yet.")


def _last_attempt(state: RunState) -> int:
    """The attempt that rank 0 is in, by the parts that the hub has of it."""
    names = [
        *(parse_part_name(f"{stem}.jsonl", ".jsonl") for stem in state.parts),
        *(parse_part_name(name, ".parquet") for name in state.segments),
    ]
    found = [name.attempt for name in names if name is not None and name.writer == LOOP]
    if not found:
        raise HubError("the hub has no records of rank 0 yet.")
    return max(found)


def main(argv: Sequence[str] | None = None) -> int:
    """Ship until the process that is watched has ended and everything is sent; 1 if it is not."""
    parser = argparse.ArgumentParser(prog="python -m epochal.shipping.node")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--grace", type=float, default=30.0)
    args = parser.parse_args(argv)
    settings = read_settings()
    if settings.hub is None:
        return 0
    folder = RunFolder(args.folder.absolute())
    try:
        client = HubClient(settings.hub, hub_token(settings))
    except (EpochalError, OSError) as error:
        sys.stderr.write(f"epochal: {error}\n")
        return 1
    rate = settings.hub_bytes_per_s
    worker = ShippingWorker(folder, client, bytes_per_s=rate, shipper_type=NodeShipper)
    worker.start()
    while os.getppid() == args.parent and folder.journal.is_dir():
        time.sleep(_LOOK_EVERY_S)
    worker.finish()
    if not worker.join(args.grace):
        worker.stop()
        worker.join(5.0)
    return 0 if worker.is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
