"""What a hub of a cluster does by itself: seals, publishes, and deletes what nobody needs.

Every hub of a cluster does it, and they share the work. A fault in one duty leaves the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from epochal.base.guard import Guard
from epochal.errors import EpochalError
from epochal.hub.counters import HubCounters
from epochal.server.state import server_guard
from epochal.store.cluster.publishing import Publisher, check_bucket
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule, count_leases
from epochal.store.cluster.sweeping import RECOVERY_S, drop_partitions, sweep_objects
from epochal.store.cluster.usage import bytes_by

_SEAL_EVERY_S = 5.0
_PUBLISH_EVERY_S = 10.0
_PARTITIONS_EVERY_S = 600.0
_SWEEP_EVERY_S = 600.0
_MEASURE_EVERY_S = 15.0
# An upload of which no piece came for so long is given up; its sender begins again.
_ABANDONED_S = 86_400.0


@dataclass(slots=True)
class Duty:
    """Something that is done every so many seconds, until it has nothing to do."""

    name: str
    every_s: float
    work: Callable[[], object]
    due_s: float = 0.0
    problem: str = ""


class Duties:
    """Does what is due, in one thread for each list of duties; ``tell`` prints a line."""

    def __init__(self, *threads: Sequence[Duty], tell: Callable[[str], object]) -> None:
        self._threads = threads
        self._tell = tell
        self._stopping = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether a duty should leave the rest for another time."""
        return self._stopping.is_set()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Do everything in threads, until the block ends; what is begun is completed."""
        guard = server_guard()
        threads = [
            threading.Thread(
                target=self._work, args=(duties, guard), name="epochal-maintenance", daemon=True
            )
            for duties in self._threads
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(5.0)

    def _work(self, duties: Sequence[Duty], guard: Guard) -> None:
        while not self._stopping.is_set():
            for duty in duties:
                if time.monotonic() >= duty.due_s:
                    guard.run(duty.name, self._do, duty)
                    duty.due_s = time.monotonic() + duty.every_s
            left_s = min(duty.due_s for duty in duties) - time.monotonic()
            self._stopping.wait(max(0.1, left_s))

    def _do(self, duty: Duty) -> None:
        """Do a duty; a problem that has a name is told when it is a new one."""
        try:
            duty.work()
            duty.problem = ""
        except EpochalError as error:
            if duty.problem != str(error):
                duty.problem = str(error)
                self._tell(f"The hub, {duty.name}: {error}")


class Maintenance:
    """The duties of one hub of a cluster, and some more that are done beside them.

    Objects that nobody needs are deleted after ``recovery_s`` seconds. ``tell`` prints a line.
    """

    def __init__(
        self,
        runs: ClusterRuns,
        *more: Duty,
        tell: Callable[[str], object],
        counters: HubCounters | None = None,
        rule: SealRule | None = None,
        recovery_s: float = RECOVERY_S,
    ) -> None:
        self._runs = runs
        self._recovery_s = recovery_s
        # As they were last: whoever asks for counters does not wait for the database.
        self._stored: Mapping[str, float] = {}
        self._num_leases = 0
        if counters is not None:
            about = "Bytes of runs by project, of all hubs; those in the trash count."
            counters.gauges("stored_bytes", about, "project", lambda: self._stored)
            about = "Parts that are being sealed, by all hubs."
            counters.gauge("sealing_leases", about, lambda: self._num_leases)
        self._sealer = Sealer(runs, rule)
        self._publisher = Publisher(runs)
        # Sealing takes long: it does not hold up the others.
        self._duties = Duties(
            [Duty("sealing", _SEAL_EVERY_S, self._seal)],
            [
                Duty("partitions", _PARTITIONS_EVERY_S, self._partitions),
                Duty("publishing", _PUBLISH_EVERY_S, self._publish),
                Duty("sweeping", _SWEEP_EVERY_S, self._sweep),
            ],
            [Duty("measuring", _MEASURE_EVERY_S, self._measure)],
            *([duty] for duty in more),
            tell=tell,
        )

    def running(self) -> AbstractContextManager[None]:
        """Do everything in threads, until the block ends."""
        return self._duties.running()

    def _seal(self) -> None:
        while not self._duties.is_stopping and self._sealer.seal_next():
            pass

    def _publish(self) -> None:
        while not self._duties.is_stopping and self._publisher.publish_runs():
            pass
        self._publisher.publish_indexes()

    def _measure(self) -> None:
        database = self._runs.database
        self._stored = database.run(lambda cursor: bytes_by(cursor, "project"))
        self._num_leases = database.run(count_leases)

    def _partitions(self) -> None:
        self._runs.database.prepare()
        drop_partitions(self._runs.database)

    def _sweep(self) -> None:
        check_bucket(self._runs)  # a newer state may need what this one does not
        self._runs.drop_uploads(after_s=_ABANDONED_S)
        sweep_objects(self._runs.database, self._runs.bucket, after_s=self._recovery_s)
