"""Keeps ``summary.json`` and ``metrics.json`` of a run as new as a hundredth of a core allows.

Records are folded in as they are written. Where that is not possible, a process of its own reads
all of the run again, and takes its memory with it. ``python -m epochal.companion.summary
RUN_FOLDER`` is that process.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.fold import Fold, MustReadAllError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.row import Mark
from epochal.journal.summaries import (
    MOST_HEADLINE,
    read_metrics,
    read_summary,
    write_metrics,
    write_summary,
)

# The other tasks wait no longer than this for a block of records, and another one.
_LOOK_S = 0.2
# Of its own CPU time, so that all of this takes a hundredth of a core.
_REST_TIMES = 100
_SUMMARY_EVERY_S = 2.0
_METRICS_EVERY_S = 60.0
_METRICS_BYTES_PER_S = 2e6 / 60
_REREAD_EVERY_S = 60.0
# Of how long the last one took: a fiftieth of a core.
_REREAD_REST_TIMES = 50
# At the end a process reads so much more quickly than it is folded.
_QUICK_BYTES = 8 * 1024 * 1024
# A run may go on beside us, on other ranks: its end is read again no more often.
_LAST_REREADS = 2
# A file that cannot be replaced because a reader has it open can be soon.
_LAST_WRITES = 20
_LESS_URGENT = 10


class SummaryWriter:
    """Writes the summaries of one run; after the run it is one of the last jobs.

    ``stop`` and ``finish`` write what has been read until then.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._cpu = cpu
        self._rereading = Rereading(folder, clock=clock)
        self._must_reread = False
        # None until the first look, and while all is read again.
        self._fold: Fold | None = None
        self._rest_until_s = -math.inf
        self._summary_at_s = self._metrics_at_s = -math.inf
        # How far was read when each file was written.
        self._in_summary: Mapping[str, Mark] = {}
        self._in_metrics: Mapping[str, Mark] = {}
        self._num_sealed: int | None = None
        self._has_sealed = False
        self._last_rereads = _LAST_REREADS
        self._last_writes = _LAST_WRITES

    @property
    def command(self) -> str:
        return f"epochal manage pack {self._folder.path}"

    def look(self) -> None:
        """Fold for a moment and write what is due, unless this has to rest."""
        if self._clock() < self._rest_until_s:
            return
        began_s = self._cpu()
        try:
            if not self._is_rereading():
                self._read_on()
                self._write(is_over=False)
        finally:
            self._rest_until_s = self._clock() + _REST_TIMES * (self._cpu() - began_s)

    def go_on(self) -> bool:
        """Fold the rest and write both files."""
        if self._rereading.look():
            return True
        self._take_over()
        if not self._must_reread and self._unread_bytes() > _QUICK_BYTES and self._may_reread:
            self._drop()
        if self._must_reread:
            return self._reread_at_last()
        if self._read_on() or self._must_reread:
            return True
        self._write(is_over=True)
        self._last_writes -= 1
        return not self._is_written and self._last_writes > 0

    def finish(self) -> None:
        """Fold what the companion itself wrote after ``go_on``, and write both files."""
        if not self._must_reread and not self._rereading.is_running:
            self._read_on()
            self._write(is_over=True)

    def stop(self) -> None:
        """Time is up; both files are written as far as was read."""
        self._rereading.stop()
        if not self._must_reread:
            self._write(is_over=True)

    def left(self) -> str | None:
        return None if self._is_written else "the run was not summarised"

    # -- reading ----------------------------------------------------------------------------------

    def _read_on(self) -> bool:
        """Fold for a moment; whether there may be more."""
        if self._fold is None:
            self._fold = self._stored()
        fold, until_s, is_behind = self._fold, self._clock() + _LOOK_S, True
        try:
            while is_behind and self._clock() < until_s:
                is_behind = self._fold_once(fold)
        except FormatError:
            self._drop()
        if not fold.is_known:
            self._drop()
        return is_behind

    def _drop(self) -> None:
        """Have all of the run read again: what was folded is of no use."""
        self._fold, self._must_reread = None, True

    def _fold_once(self, fold: Fold) -> bool:
        """Fold a block of records; whether there was one."""
        parts, sealed = self._parts()
        try:
            return fold.read(parts, sealed, enough=1) > 0
        except MustReadAllError:
            parts, sealed = self._parts()  # a part that was read to its end may be sealed now
            return fold.read(parts, sealed, enough=1) > 0

    def _parts(self) -> tuple[dict[PartName, Path], list[PartName]]:
        folder = self._folder
        parts = {name: folder.part_path(name) for name in folder.parts()}
        sealed = folder.sealed_parts()  # after the parts: they go from there to here, never back
        self._has_sealed |= self._num_sealed not in (None, len(sealed))
        self._num_sealed = len(sealed)
        return parts, sealed

    def _unread_bytes(self) -> int:
        marks = {} if self._fold is None else self._fold.marks
        unread = 0
        for name, path in self._parts()[0].items():
            mark = marks.get(name[:2], Mark(-1, 0, 0))
            if mark.part <= name.part and path.exists():
                unread += path.stat().st_size - (mark.bytes if mark.part == name.part else 0)
        return unread

    def _stored(self) -> Fold:
        """A fold that goes on from the file."""
        known = read_metrics(str(self._folder.path))
        row = read_summary(str(self._folder.path))
        self._in_metrics = {} if known is None else known.marks
        self._in_summary = {} if row is None else row.positions or self._in_metrics
        return Fold(known)

    def _is_rereading(self) -> bool:
        """Whether all of the run is being read, or waits for it: nothing can be folded in."""
        if self._rereading.look():
            return True
        self._take_over()
        if self._must_reread:
            self._rereading.start_if_due()
        return self._must_reread

    def _take_over(self) -> None:
        """Go on from what the process has written."""
        if self._rereading.has_succeeded:
            self._rereading.has_succeeded = self._must_reread = False

    @property
    def _may_reread(self) -> bool:
        return self._last_rereads > 0 and self._rereading.is_possible

    def _reread_at_last(self) -> bool:
        """Read all of the run again, whatever that costs; whether that is under way now."""
        if self._may_reread:
            self._last_rereads -= 1
            self._rereading.start()
        return self._rereading.is_running

    # -- writing ----------------------------------------------------------------------------------

    @property
    def _is_written(self) -> bool:
        marks = None if self._fold is None else self._fold.positions
        return marks is not None and marks == self._in_metrics == self._in_summary

    def _write(self, *, is_over: bool) -> None:
        """Write what is due, or both files at the end, unless nothing was read since."""
        fold, now_s = self._fold, self._clock()
        if fold is None:
            return
        marks = fold.positions
        are_due = marks != self._in_metrics and (is_over or self._are_metrics_due(now_s))
        if are_due and write_metrics(self._folder, fold.known()):
            self._in_metrics, self._metrics_at_s, self._has_sealed = marks, now_s, False
        is_due = is_over or now_s - self._summary_at_s >= _SUMMARY_EVERY_S
        if not is_due or marks == self._in_summary:
            return
        if write_summary(self._folder, fold.known(most=MOST_HEADLINE)):
            self._in_summary, self._summary_at_s = marks, now_s

    def _are_metrics_due(self, now_s: float) -> bool:
        if not self._in_metrics:
            return True
        try:
            least_s = self._folder.metrics.stat().st_size / _METRICS_BYTES_PER_S
        except OSError:
            return True  # it is not there any more
        rested_s = now_s - self._metrics_at_s
        return rested_s >= least_s and (self._has_sealed or rested_s >= _METRICS_EVERY_S)


class Rereading:
    """Reads all of a run in a process of its own, one at a time, and writes its summaries."""

    def __init__(self, folder: RunFolder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = self._due_s = -math.inf
        self.has_succeeded = False

    @property
    def is_possible(self) -> bool:
        """Whether a run can be read here: a small install has no ``numpy``."""
        return find_spec("numpy") is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def look(self) -> bool:
        """Whether the process is under way."""
        if self._process is None or (code := self._process.poll()) is None:
            return self._process is not None
        self._process = None
        self.has_succeeded = code == 0
        took_s = self._clock() - self._began_s
        self._due_s = max(
            self._began_s + _REREAD_EVERY_S, self._clock() + _REREAD_REST_TIMES * took_s
        )
        return False

    def start_if_due(self) -> None:
        """Start the process unless it ran a short time ago."""
        if self.is_possible and self._clock() >= self._due_s:
            self.start()

    def start(self) -> None:
        """Start the process."""
        self._began_s, self.has_succeeded = self._clock(), False
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "epochal.companion.summary"),
                str(self._folder.path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        """Stop a process that is under way; each file is the old one or the new one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main(argv: Sequence[str]) -> int:
    """The process that reads all of a run."""
    from epochal.journal.summaries import write_summaries

    if hasattr(os, "nice"):
        os.nice(_LESS_URGENT)
    try:
        is_written = write_summaries(RunFolder(Path(argv[0])))
    except (FormatError, OSError):  # readers say what is wrong with the run
        return 1
    return 0 if is_written else 1


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)  # nothing is left to do, and taking all of it down takes its time
