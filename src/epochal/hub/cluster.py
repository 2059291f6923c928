"""A hub over a ClickHouse cluster: its folder is a working copy that follows the tables.

The folder has every run's identity, and the lines of those runs that were received or asked for
here. Beyond a limit, the copies that were used longest ago are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from epochal.format import format_bytes
from epochal.health.rule_settings import reader_rules
from epochal.hub.ledger import Ledger
from epochal.hub.limits import RESERVE_BYTES, size_of
from epochal.hub.shared_ledger import SharedLedger, is_shared
from epochal.hub.store import HubStore
from epochal.server.state import server_guard
from epochal.settings import cache_folder
from epochal.store.clickhouse.connection import ClickHouseError, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Tables
from epochal.store.clickhouse.upstream import ClickHouseUpstream
from epochal.store.local.run import LocalRun

# How soon one hub shows what another has received.
_LOOK_EVERY_S = 0.5
_RETRY_S = 5.0
# Requests that wait at once until their rows are stored.
_THREADS = 256
# Rows are derived for so long at a time, and the copies are measured so often.
_DERIVE_S, _REST_S = 1.0, 0.5
_MEASURE_EVERY_S = 30.0
# Copies are deleted until so much of the limit is left.
_ENOUGH = 0.9
_ROOM = "room"


class _ClusterStore(HubStore, ClickHouseStore):
    """The runs of a cluster, as a hub serves them."""

    def received(self, run: LocalRun) -> float:
        """When anything of a run was stored last."""
        return self._copies.received(run.own_id)


class Cluster:
    """The tables behind a hub, and the copy of them in its folder.

    The copy takes at most ``most_bytes``. ``tell`` prints a line about what the hub does by itself.
    """

    num_threads = _THREADS

    def __init__(
        self,
        address: str,
        root: Path,
        *,
        blobs: str | None = None,
        most_bytes: float | None = None,
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._tell = tell
        self.address = parse_address(address)
        self._most_bytes = math.inf if most_bytes is None else most_bytes
        self.copies = Copies(self._connect(root, blobs), root, rules=reader_rules())
        # The stores that are open; the first one over all runs derives rows.
        self._stores: weakref.WeakSet[_ClusterStore] = weakref.WeakSet()
        self._deriving: _ClusterStore | None = None
        self.upstream = ClickHouseUpstream(self.copies)
        self.ledger = SharedLedger(root)
        try:
            self.ledger.exchange(self.copies.tables)
        except ClickHouseError:
            if not self.ledger.tokens():  # a server is away, and nobody is known here yet
                raise

    def _connect(self, root: Path, blobs: str | None) -> Tables:
        """The tables; a hub that has reached them before waits until they can be reached."""
        is_told = False
        while True:
            try:
                return Tables(self.address, blobs=blobs)
            except ClickHouseError as error:
                is_refused = error.is_final or (error.code and not error.is_passing)
                if is_refused or not is_shared(root):
                    raise
                if not is_told:
                    self._tell(f"The hub waits: {error}")
                    is_told = True
            time.sleep(_RETRY_S)

    def open_store(self, folders: Sequence[Path], ledger: Ledger) -> HubStore:
        """The runs of some folders of the working copy."""
        store = _ClusterStore(
            self.copies,
            *folders,
            cache=cache_folder(),
            build=True,
            rules=reader_rules(),
            is_followed=True,
        )
        store.ledger = ledger
        self._stores.add(store)
        if self._deriving is None and list(folders) == [self.copies.root]:
            self._deriving = store
        return store

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Follow the tables in threads; close everything at the end."""
        stopping, guard = threading.Event(), server_guard()

        def follow() -> None:
            pause_s = 0.0
            while not stopping.wait(pause_s):
                pause_s = guard.run("clickhouse", self._look) or _RETRY_S

        def derive() -> None:
            left_s = 0.0
            while not stopping.wait(_REST_S):
                guard.run("clickhouse rows", self._derive)
                left_s -= _REST_S
                if left_s <= 0:
                    left_s = _MEASURE_EVERY_S
                    guard.run("clickhouse copies", self.make_room)

        threads = [
            threading.Thread(target=work, name=f"epochal-{work.__name__}", daemon=True)
            for work in (follow, derive)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopping.set()
            for thread in threads:
                thread.join(5.0)
            self.copies.tables.close()

    def _derive(self) -> bool:
        """Derive rows that all hubs need, while the cluster is there."""
        if self._deriving is not None and "" not in self.copies.problems:
            # An error of the cluster is told by the look; the rows are due until they are stored.
            with contextlib.suppress(ClickHouseError):
                self._deriving.derive_rows(budget_s=_DERIVE_S)
        return True

    def make_room(self) -> int:
        """Delete copies, the longest unused first, while they take too much; how many."""
        root = self.copies.root
        sizes = {str(place): size_of(place) for place in self.copies.held()}
        used = sum(sizes.values())
        most = min(self._most_bytes, used + shutil.disk_usage(root).free - 2 * RESERVE_BYTES)
        self.copies.problems.pop(_ROOM, None)
        if used <= most:
            return 0
        before, num_deleted = used, 0
        for run_id in self.copies.unused():
            place = self.copies.place_of(run_id)
            if used <= most * _ENOUGH or place is None:
                break
            if self._evict(run_id):
                used -= sizes.get(str(place), 0)
                num_deleted += 1
        if num_deleted:
            self._tell(
                f"The working copy took {format_bytes(before)}, more than {format_bytes(most)}:"
                f" the copies of {num_deleted:,} runs were deleted, those unused for longest."
                " They are copied again when somebody opens them."
            )
        if used > most:
            self.copies.problems[_ROOM] = (
                f"The working copy takes {format_bytes(used)}, more than {format_bytes(most)}, and"
                " all of it is in use: give the hub more disk, or another hub some of the runs."
            )
        return num_deleted

    def _evict(self, run_id: str) -> bool:
        """Delete the copy of a run, unless somebody reads it."""
        with contextlib.ExitStack() as held:
            for store in list(self._stores):
                one = store.let_go(run_id)
                if one is None:
                    return False
                held.enter_context(one)
            self.copies.evict(run_id)
        return True

    def _look(self) -> float:
        """Copy what is new; how long to wait before the next look."""
        try:
            self.ledger.exchange(self.copies.tables)
            self.copies.fetch_changed()
        except ClickHouseError as error:
            self.copies.problems[""] = f"{error} The page shows what was copied before."
            return _RETRY_S
        self.copies.problems.pop("", None)
        return _LOOK_EVERY_S


def working_copy(address: str) -> Path:
    """Where the working copy of a hub lies, unless a folder is given."""
    digest = hashlib.sha256(str(parse_address(address)).encode()).hexdigest()[:16]
    return cache_folder() / "hubs" / digest
