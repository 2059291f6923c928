"""Ships a run in a thread of its own, again and again until it is told that no more will come."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from epochal.base.guard import Guard
from epochal.errors import EpochalError
from epochal.journal.layout import LOOP, PartName, RunFolder, parse_part_name
from epochal.journal.process import read_header
from epochal.records import finite
from epochal.shipping.client import HubClient, HubError, NotYetError
from epochal.shipping.protocol import RunState
from epochal.shipping.shipper import BandwidthLimit, Shipper

# Between two batches: with the look of the hub's page, a value is seen within 2 s. A hub that takes
# long to answer is asked less often.
SHORTEST_REST_S = 0.5
LONGEST_REST_S = 1.0
_REST_PER_ROUND = 8.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# Rank 0 of a launch starts a little later, or much later.
_NOT_YET_PAUSE_S = 2.0
# A refusal that a person has to mend, such as a token that was revoked.
_REFUSED_PAUSE_S = 300.0


class ShippingWorker:
    """A shipper and its thread.

    A hub that is away is tried again after a growing pause, with some chance in it so that a
    thousand companions do not come back in the same second.
    """

    def __init__(
        self,
        folder: RunFolder,
        client: HubClient,
        *,
        bytes_per_s: float | None = None,
        on_error: Callable[[str], object] = lambda _sentence: None,
        guard: Guard | None = None,
        shipper_type: type[Shipper] = Shipper,
    ) -> None:
        self.folder = folder
        self.url = client.url
        self._guard = Guard() if guard is None else guard
        self._client = client
        self._on_error = on_error
        self._stopping = threading.Event()
        self._finishing = threading.Event()
        self._waker = threading.Event()
        limit = BandwidthLimit(bytes_per_s, sleep=self._stopping.wait)
        self._shipper = shipper_type(folder, client, limit=limit)
        self._thread = threading.Thread(target=self._run, name="epochal-shipping", daemon=True)
        self._pause_s = _FIRST_PAUSE_S
        self.error: str | None = None
        self.is_complete = False

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """No more will be written: end when the hub has everything."""
        self._finishing.set()
        self._waker.set()

    def stop(self) -> None:
        """End at the next chance, whatever is left."""
        self._stopping.set()
        self._waker.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread; whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def num_lines(self) -> int:
        """How many lines this worker has sent."""
        return self._shipper.num_lines

    def _run(self) -> None:
        self._guard.run("shipping", self._work)

    def _work(self) -> None:
        is_last = False
        try:
            while not self._stopping.is_set():
                if self._finishing.is_set() and not is_last:
                    is_last = True
                    self._shipper.forget()  # the hub may have lost what it had
                pause_s = self._round()
                if is_last and self.is_complete:
                    return
                self._waker.wait(pause_s)
                self._waker.clear()
        finally:
            self._client.close()

    def _round(self) -> float:
        """Ship once; how long to wait before the next time."""
        began_s = time.monotonic()
        try:
            is_complete = self._shipper.ship(should_stop=self._stopping.is_set)
        except (EpochalError, OSError) as error:
            self.is_complete = False
            return self._failed(error)
        self._pause_s = _FIRST_PAUSE_S
        self.error = "; ".join(self._shipper.conflicts.values()) or None
        if self.error:
            self._on_error(self.error)
        self.is_complete = is_complete and not self.error
        if self._finishing.is_set() and not is_complete:
            return 0.0
        return rest_after(time.monotonic() - began_s)

    def _failed(self, error: Exception) -> float:
        sentence = str(error)
        is_told, self.error = sentence == self.error, sentence
        if not (isinstance(error, HubError) and error.is_busy):
            self._shipper.forget()
        if isinstance(error, NotYetError):
            return _NOT_YET_PAUSE_S * random.uniform(0.5, 1.5)
        if not is_told:
            self._on_error(sentence)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        if not isinstance(error, HubError):
            return pause_s * random.uniform(0.5, 1.5)
        return error.pause_s(_REFUSED_PAUSE_S if error.is_final else pause_s)


def rest_after(took_s: float) -> float:
    """How long to rest after a batch that took so long; a little less or more each time.

    So a thousand companions do not send in the same moment.
    """
    rest_s = min(max(_REST_PER_ROUND * took_s, SHORTEST_REST_S), LONGEST_REST_S)
    return rest_s * random.uniform(0.8, 1.0)


class Shipped(NamedTuple):
    """How many records and files were sent."""

    lines: int
    files: int


def ship_now(
    folder: RunFolder,
    client: HubClient,
    *,
    bytes_per_s: float | None = None,
    unless_removed: bool = False,
    compare_files: bool = True,
    tries: int = 3,
    pause_s: float = 1.0,
) -> Shipped:
    """Ship what there is, and ask the hub whether it has all of it.

    Raises ``HubError`` if it could not be reached, refused, or does not have something after
    everything was sent; of a hub that is busy, each time that it takes something counts anew.
    """
    shipper = Shipper(
        folder,
        client,
        limit=BandwidthLimit(bytes_per_s),
        unless_removed=unless_removed,
        compare_files=compare_files,
    )
    left, sent = tries, (0, 0)
    while True:
        try:
            while not shipper.ship() and not shipper.conflicts:
                pass
            shipper.verify()
            break
        except HubError as error:
            before, sent = sent, (shipper.num_lines, shipper.num_files)
            left = tries if error.is_busy and sent != before else left - 1
            # Nobody waits at a terminal until somebody has made room.
            if error.is_final or not left or error.status == 507:
                raise
            shipper.forget()
            time.sleep(error.pause_s(pause_s))
    if shipper.conflicts:
        raise HubError("; ".join(shipper.conflicts.values()), status=409)
    return Shipped(shipper.num_lines, shipper.num_files)


# Ships the ranks of a node that shares no disk with rank 0 into the run of rank 0 on the hub.
#
# Such ranks write into ``.launch/<launch id>``, and know no run. Rank 0 of the same launch ships
# its run, so the hub knows which one it is. The companion of the node ships, and its telemetry
# too.


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
        header = read_header(folder.part_path(name))
        if header.get("id"):  # a companion's does not say it
            start = finite(header.get("t")) or time.time()
            return str(header.get("id", "")), str(header.get("project", "")), start
    raise NotYetError(f"{folder.path} has no records yet.")


def _last_attempt(state: RunState) -> int:
    """The attempt that rank 0 is in, by the parts that the hub has of it."""
    names = [
        *(parse_part_name(f"{stem}.jsonl", ".jsonl") for stem in state.parts),
        *(parse_part_name(name, ".parquet") for name in state.segments),
    ]
    last = max((n.attempt for n in names if n is not None and n.writer == LOOP), default=0)
    if not last:
        raise NotYetError("the hub has no records of rank 0 yet.")
    return last
