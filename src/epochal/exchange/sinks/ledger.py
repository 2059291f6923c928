"""``sinks.json`` in a run's folder: where the run goes to, how far each sink has come, what failed.

    {"report_to": ["wandb"], "options": {"wandb_project": "gpt2"},
     "sinks": {"wandb": {"sent": {"loop": [1, 0, 523]}, "sending": null, "num_sent": 523,
                         "skipped": {"not held": {"table": 2}}, "behind": 0, "phase": "sending",
                         "error": null, "state": {…}, …}}}

``sent`` is the place of the next record per writer. ``sending`` is where a batch ends that was
handed over and not confirmed: after a crash exactly that batch is handed over again. ``skipped``
counts the records that the target cannot hold, and ``rejection`` is its first error about one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from epochal.base.atomic_file import between_processes
from epochal.errors import FormatError, UsageError
from epochal.exchange.sinks.backlog import RecordIndex
from epochal.exchange.sinks.reporting import Reporting, options_from
from epochal.exchange.sinks.sink import SinkBusyError
from epochal.exchange.sinks.unsent import SINKS_FILE, Counts
from epochal.journal.layout import RunFolder, read_json, write_json
from epochal.journal.process import liveness, process_identity

# A process on another machine cannot be looked at: it counts as alive while its entry is young.
HEARTBEAT_S = 20.0
_SILENT_S = 3 * HEARTBEAT_S

# waiting: all was sent. failing: will be tried again. stopped: will not, without a person.
Phase = Literal["new", "sending", "waiting", "failing", "stopped", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress:
    """The state of one sink; times are Unix seconds, ``behind`` is in records."""

    sent: RecordIndex = field(default_factory=dict)
    sending: RecordIndex | None = None
    num_sent: int = 0
    skipped: Counts = field(default_factory=dict)
    rejection: str = ""
    behind: int = 0
    phase: Phase = "new"
    error: str | None = None
    failures: int = 0
    updated: float = 0.0
    state: dict[str, Any] = field(default_factory=dict)
    stream: dict[str, Any] = field(default_factory=dict)
    owner: dict[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything there was has been sent and the sink was closed."""
        return self.phase == "closed"


class _Kept(msgspec.Struct):
    report_to: list[str] | None = None
    options: dict[str, Any] = {}
    sinks: dict[str, SinkProgress] = {}


class Ledger:
    """Reads and writes the ``sinks.json`` of one run; used by any number of threads."""

    def __init__(self, folder: RunFolder) -> None:
        self.path = folder.path / SINKS_FILE
        self._lock = threading.Lock()

    def reporting(self) -> Reporting:
        """The sinks of the run; none if none were set."""
        kept = self._read()
        return options_from({"report_to": kept.report_to, **kept.options})

    def report(self, reporting: Reporting) -> None:
        """Note where the run goes to."""
        with self._changing() as kept:
            kept.report_to = list(reporting.report_to)
            kept.options = dict(reporting.given)

    def progress_by_sink(self) -> dict[str, SinkProgress]:
        """Every sink the run was ever sent to, by name."""
        return self._read().sinks

    def progress(self, name: str) -> SinkProgress:
        """The state of a sink; a new one has sent nothing."""
        return self.progress_by_sink().get(name, SinkProgress())

    def claim(self, name: str) -> SinkProgress:
        """Take a sink over for this process; raises ``SinkBusyError`` while another has it."""
        with self._changing() as kept:
            progress = kept.sinks.get(name, SinkProgress())
            own = process_identity()
            if progress.owner not in (None, own) and _is_held(progress):
                assert progress.owner is not None
                raise SinkBusyError(
                    f"process {progress.owner.get('pid')} on {progress.owner.get('host')} is"
                    f" sending this run to {name!r} already."
                )
            kept.sinks[name] = replace(progress, owner=own, updated=time.time())
            return kept.sinks[name]

    def save(self, name: str, progress: SinkProgress) -> None:
        """Store the state of a sink; raises OSError when it cannot be written."""
        with self._changing() as kept:
            kept.sinks[name] = progress

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Kept]:
        lock = self.path.with_name(".sinks.lock")
        with self._lock, contextlib.ExitStack() as held:
            try:
                # A file system without locks is left to the claim, which is checked as well.
                held.enter_context(between_processes(lock))
            except OSError as error:
                raise UsageError(f"{lock} cannot be written: {error.strerror}.") from error
            kept = self._read()
            yield kept
            write_json(self.path, msgspec.to_builtins(kept))

    def _read(self) -> _Kept:
        try:
            return msgspec.convert(read_json(self.path), _Kept)
        except FileNotFoundError:
            return _Kept()
        except msgspec.ValidationError as error:
            raise FormatError(f"{self.path} is damaged: {error}") from error


def _is_held(progress: SinkProgress) -> bool:
    assert progress.owner is not None
    if progress.phase in ("closed", "stopped"):
        return False
    alive = liveness(progress.owner)
    return alive == "alive" or (alive == "unknown" and time.time() - progress.updated < _SILENT_S)
