"""Sends a run on to its sinks, if it has any; the sinks' own threads do the work.

Which sinks is said in the run's ``sinks.json``. Nothing of theirs is loaded before that is seen.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from epochal.base.guard import Guard
from epochal.companion.own_journal import OwnJournal
from epochal.errors import EpochalError
from epochal.exchange.sinks.unsent import sink_states
from epochal.journal.layout import RunFolder, json_or_empty
from epochal.journal.process import liveness, process_identity

if TYPE_CHECKING:
    from epochal.exchange.sinks.worker import Forwarding


class Relay:
    """The sinks of one run, from the first look to the last job."""

    def __init__(
        self, folder: RunFolder, journal: OwnJournal, *, guard: Guard | None = None
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._folder = folder
        self._journal = journal
        self._forwarding: Forwarding | None = None
        self._failure: str | None = None

    @property
    def command(self) -> str:
        return f"epochal sync {self._folder.path}"

    @property
    def is_busy(self) -> bool:
        """Whether a sink is at work, or hangs."""
        return self._forwarding is not None and self._forwarding.is_busy

    def look(self) -> None:
        """Start sending if there is a sink and no other process sends."""
        if self._forwarding is not None:
            self._forwarding.note_hangs()
            return
        if self._failure is not None:
            return
        wanted, sinks = sink_states(self._folder)
        if wanted and not any(_is_held(sinks.get(name)) for name in wanted):
            self._begin()

    def finish(self) -> None:
        """No more records will come: have the sinks send what there is, and close."""
        self.look()
        if self._forwarding is not None:
            self._forwarding.finish()

    def go_on(self) -> bool:
        """Whether any sink still has something to send."""
        return self.is_busy

    def stop(self) -> None:
        """The time is up: finish the current batch."""
        if self._forwarding is not None:
            self._forwarding.stop()

    def left(self) -> str | None:
        if self._forwarding is None:
            wanted, _ = sink_states(self._folder)
            why = self._failure or "another process was sending"
            return f"not sent to {', '.join(wanted)}: {why}" if wanted else None
        unsent = self._forwarding.unsent()
        return "; ".join(f"not sent to {name}: {why}" for name, why in unsent.items()) or None

    def _begin(self) -> None:
        from epochal.exchange.sinks.ledger import Ledger
        from epochal.exchange.sinks.worker import Forwarding

        try:
            reporting = Ledger(self._folder).reporting()
            forwarding = Forwarding(self._folder, reporting, guard=self._guard, is_live=True)
        except (EpochalError, OSError) as error:
            self._failure = str(error)
            self._journal.event("sinks-failed", reason=self._failure)
            return
        _work_beside_training(self._folder)
        forwarding.start()
        self._forwarding = forwarding


def _work_beside_training(folder: RunFolder) -> None:
    """Change to the folder in which the training was started, which trackers write to by default.

    If it is gone, the run's own folder takes its place.
    """
    for path in (json_or_empty(folder.identity).get("cwd"), folder.path):
        with contextlib.suppress(OSError):
            if isinstance(path, str | os.PathLike):
                os.chdir(path)
                return


def _is_held(progress: Any) -> bool:
    """Whether a companion of an earlier attempt is still at a sink: it will not be for long."""
    owner = progress.get("owner") if isinstance(progress, dict) else None
    if not isinstance(owner, dict) or progress.get("phase") in ("closed", "stopped"):
        return False
    return owner != process_identity() and liveness(owner) == "alive"
