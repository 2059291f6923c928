"""Sends a run to several sinks at once, each in its own thread.

A sink that raises is opened again after a growing pause. One that hangs does not delay the others.
One that cannot be used reports why and is not tried again. ``sinks.json`` in the run's folder has
the state of each.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from epochal.base.guard import EXPECTED, Guard
from epochal.errors import FormatError, UsageError
from epochal.exchange.sinks.forward import Forwarder
from epochal.exchange.sinks.ledger import Ledger, SinkProgress
from epochal.exchange.sinks.registry import all_sinks, make_sink, sink_member
from epochal.exchange.sinks.reporting import Reporting
from epochal.exchange.sinks.sink import Sink, SinkBusyError, SinkUnavailableError
from epochal.journal.layout import RunFolder

LOOK_EVERY_S = 1.0
# A tracker may take its time over a batch or a last upload; so long it only hangs.
SINK_BUDGET_S = 120.0
_FIRST_PAUSE_S = 1.0
_MOST_DOUBLINGS = 6
# What a second try cannot mend.
_FINAL = (SinkUnavailableError, SinkBusyError, UsageError, FormatError)


class Worker:
    """One sink and its thread.

    With ``tries`` it gives up after so many failures in a row; without it never does.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        *,
        look_every_s: float = LOOK_EVERY_S,
        tries: int | None = None,
        guard: Guard | None = None,
        budget_s: float = SINK_BUDGET_S,
    ) -> None:
        self.name = forwarder.name
        self._guard = Guard() if guard is None else guard
        self._budget_s = budget_s
        self._began_s = time.monotonic()
        self._is_noted = False
        self._forwarder = forwarder
        self._look_every_s = look_every_s
        self._tries = tries
        self._failures = 0
        self._is_to_finish = threading.Event()
        self._is_to_stop = threading.Event()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"epochal-sink-{self.name}", daemon=True
        )

    @property
    def progress(self) -> SinkProgress:
        return self._forwarder.progress

    @property
    def member(self) -> str:
        """What the sink is called as a member of the fault boundary."""
        return sink_member(self.name)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is still at work, or hangs."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """No more records will come: send the rest, close, and end."""
        self._is_to_finish.set()
        self._is_ending.set()

    def stop(self) -> None:
        """End after the batch that is being sent; nothing is closed."""
        self._is_to_stop.set()
        self._is_ending.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False when it did not come in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_done = False
        while not is_done and not self._is_to_stop.is_set():
            self._began_s, self._is_noted = time.monotonic(), False
            # A tracker's package may raise anything; what a network or a disk does is no fault.
            outcome = self._guard.outcome(self.member, self._go_on, expected=EXPECTED)
            is_done = bool(outcome.value) if outcome.error is None else self._let_go(outcome.error)

    def note_hang(self) -> None:
        """Count it as a fault when one call of the sink has taken too long, once per call."""
        is_over = time.monotonic() - self._began_s > self._budget_s
        if is_over and not self._is_noted and self.is_alive:
            self._is_noted = True
            self._guard.note_hang(self.member, self._thread, budget_s=self._budget_s)

    def _go_on(self) -> bool:
        """Send a batch or wait for one; True when all is done."""
        if not self._forwarder.is_open:
            if self._is_to_finish.is_set() and not self._forwarder.has_news():
                return True
            self._forwarder.open()
        # Asked before looking: what was written before the request is then sent.
        is_last_look = self._is_to_finish.is_set()
        if self._forwarder.forward():
            self._failures = 0
            return False
        if is_last_look:
            self._forwarder.close()
            return True
        self._is_ending.wait(self._look_every_s)
        return False

    def _let_go(self, error: Exception) -> bool:
        """Record an error, close the sink, and pause; True when it cannot continue."""
        # Counted here: what the record says of failures goes back to other processes as well.
        self._failures += 1
        is_final = isinstance(error, _FINAL) or self._failures == self._tries
        # The first error is the one that is shown: a sink that fails often fails to close as well.
        self._guard.outcome(self.member, self._abandon, error, is_final, expected=EXPECTED)
        if not is_final:
            self._began_s = math.inf  # a pause is no hang
            doublings = min(self._failures - 1, _MOST_DOUBLINGS)
            self._is_to_stop.wait(_FIRST_PAUSE_S * 2**doublings)
        return is_final

    def _abandon(self, error: Exception, is_final: bool) -> None:
        sink = self._forwarder.abandon(error, is_final=is_final)
        if sink is not None:
            sink.close(None)


class Forwarding:
    """A run on its way to all its sinks; ``is_live`` if the companion sends it."""

    def __init__(
        self,
        folder: RunFolder,
        reporting: Reporting,
        *,
        names: Iterable[str] | None = None,
        look_every_s: float = LOOK_EVERY_S,
        tries: int | None = None,
        make: Callable[[str], Sink] = make_sink,
        guard: Guard | None = None,
        budget_s: float = SINK_BUDGET_S,
        is_live: bool = False,
    ) -> None:
        self.folder = folder
        if guard is not None:
            all_sinks(guard)  # the fault of a sink that cannot be loaded is recorded with the run
        ledger = Ledger(folder)
        self.workers: Sequence[Worker] = [
            Worker(
                Forwarder(
                    folder, name, reporting.of(name), ledger=ledger, make=make, is_live=is_live
                ),
                look_every_s=look_every_s,
                tries=tries,
                guard=guard,
                budget_s=budget_s,
            )
            for name in (reporting.report_to if names is None else names)
        ]

    def start(self) -> None:
        """Begin sending; returns at once."""
        for worker in self.workers:
            worker.start()

    def note_hangs(self) -> None:
        """Count a sink that has not come back for too long; call now and then."""
        for worker in self.workers:
            worker.note_hang()

    def finish(self) -> None:
        """The run has ended: let each sink send the rest and close; returns at once."""
        for worker in self.workers:
            worker.finish()

    def stop(self) -> None:
        """End after the batches that are being sent, without closing; returns at once."""
        for worker in self.workers:
            worker.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for all to end; False when time was up before. A sink that hangs never ends."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        return all(
            worker.join(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            for worker in self.workers
        )

    @property
    def is_busy(self) -> bool:
        """Whether any sink is still at work, or hangs."""
        return any(worker.is_alive for worker in self.workers)

    def progress_by_sink(self) -> dict[str, SinkProgress]:
        """The state of each sink, by name."""
        return {worker.name: worker.progress for worker in self.workers}

    def unsent(self) -> dict[str, str]:
        """The problem of each sink that has records left, in words."""
        return {
            worker.name: _sentence(worker.progress)
            for worker in self.workers
            if not worker.progress.is_done
        }


def _sentence(progress: SinkProgress) -> str:
    left = f"{progress.behind} records behind" if progress.behind else "not closed"
    return f"{left}: {progress.error}" if progress.error else left
