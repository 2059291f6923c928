"""Sends one run to one sink: reads the unsent records, sends them, stores the position."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from epochal.base.guard import attempt, describe
from epochal.errors import EpochalError
from epochal.exchange.sinks.backlog import Backlog, Stream, is_sent
from epochal.exchange.sinks.ledger import HEARTBEAT_S, Ledger, Phase, SinkProgress
from epochal.exchange.sinks.registry import make_sink
from epochal.exchange.sinks.sink import (
    BOOKKEEPING,
    LABELS,
    NUMBERS,
    Entry,
    FileMissingError,
    NotHeldError,
    Sink,
    SinkContext,
    SinkOptions,
    is_held,
)
from epochal.exchange.sinks.unsent import Reason, counted, with_labels
from epochal.journal.layout import RunFolder, json_or_empty

BATCH_RECORDS = 2000
# How often a batch is sent of which the target accepts nothing, before its records are skipped.
_TRIES_OF_REJECTED = 3
# What is reported if a target cannot hold it.
_REPORTED = ("blob:", "file", "text", "histogram", "graph", "event:alert", "summary")


class Forwarder:
    """Drives one sink; used by one thread. After an error it is opened again, with a new sink."""

    def __init__(
        self,
        folder: RunFolder,
        name: str,
        options: SinkOptions,
        *,
        ledger: Ledger,
        make: Callable[[str], Sink] = make_sink,
        batch_records: int = BATCH_RECORDS,
        is_live: bool = False,
    ) -> None:
        self.name = name
        self.progress = SinkProgress()
        self._folder = folder
        self._options = options
        self._ledger = ledger
        self._make = make
        self._batch_records = batch_records
        self._is_live = is_live
        self._sink: Sink | None = None
        self._backlog = Backlog(folder, {})
        self._stream = Stream()

    @property
    def is_open(self) -> bool:
        """Whether there is a sink to send to."""
        return self._sink is not None

    def open(self) -> None:
        """Open the sink where it stopped; raises whatever it raises."""
        self.progress = self._ledger.claim(self.name)
        sink = self._make(self.name)
        context = SinkContext(
            folder=self._folder,
            identity=json_or_empty(self._folder.identity),  # its records say who it is as well
            options=self._options,
            state=self.progress.state,
            is_live=self._is_live,
        )
        try:
            if not sink.open(context):
                self.progress = SinkProgress(owner=self.progress.owner)
        except BaseException:
            self._sink = sink  # so that ``abandon`` can close what was half opened
            raise
        self._sink = sink
        self._stream = Stream(self.progress.stream)
        self._backlog = Backlog(self._folder, self.progress.sent, wants=is_sent)
        skipped = self.progress.skipped
        # A file of plain records has no place for labels, and nobody looks for them there.
        if _is_for_samples(sink) and "*" not in sink.holds:
            missing = [label for label in LABELS if label not in sink.labels]
            skipped = with_labels(skipped, context.identity, missing)
        # A tracker's own id must not be lost before the first record is.
        # Counting reads the files, so it is done once.
        behind = self._backlog.count()
        self._save(phase="sending", state=sink.flush(), behind=behind, skipped=skipped)

    def forward(self) -> int:
        """Send one batch; the number of records it moved on by, 0 when there is nothing new."""
        assert self._sink is not None
        repeated = self.progress.sending
        items = self._backlog.take(limit=self._batch_records, until=repeated)
        count = len(items)
        if not count:
            self._rest()
            return 0
        after = dict(self._backlog.places)
        if repeated is None:
            self._save(sending=after, phase="sending")
        handed_over = _HandedOver(self._sink, self.progress)
        for position, record in items:
            entry = self._stream.entry(position, record)
            if entry is not None:
                handed_over.add(entry)
        handed_over.check()
        self._save(
            sent=after,
            sending=repeated if repeated is not None and after != repeated else None,
            num_sent=self.progress.num_sent + count - handed_over.num_skipped,
            skipped=handed_over.skipped,
            rejection=handed_over.rejection,
            state=self._sink.flush(),
            stream=self._stream.plain(),
            behind=max(int(count == self._batch_records), self.progress.behind - count),
            error=None,
            failures=0,
        )
        return count

    def close(self) -> None:
        """Close the sink with how the run ended, as far as its records say."""
        assert self._sink is not None
        state = self._sink.close(self._stream.status)
        self._sink = None
        self._backlog.close()
        self._save(phase="closed", state=state, behind=0, error=None, failures=0)

    def abandon(self, error: BaseException, *, is_final: bool) -> Sink | None:
        """Note an error and let go of the sink, which is returned so that it can be closed."""
        sink, self._sink = self._sink, None
        self._backlog.close()
        self._save(
            phase="stopped" if is_final else "failing",
            error=_words(error),
            failures=self.progress.failures + 1,
        )
        self._save(behind=self.count_behind())
        return sink

    def has_news(self) -> bool:
        """Whether opening the sink would be of any use."""
        self.progress = self._ledger.progress(self.name)
        is_to_complete = not self._is_live and bool(self.progress.state.get("left_out"))
        return not self.progress.is_done or is_to_complete or self.count_behind() > 0

    def count_behind(self) -> int:
        """How many records have not been sent."""
        return Backlog(self._folder, self.progress.sent, wants=is_sent).count()

    def _rest(self) -> None:
        """Nothing new: say so once, and again now and then as a sign of life."""
        if self.progress.sending is not None:
            self._save(sending=None)  # the files end before the batch did: it was cut, not lost
        is_news = self.progress.phase != "waiting" or self.progress.behind
        if is_news or time.time() - self.progress.updated > HEARTBEAT_S:
            self._save(phase="waiting", behind=0)

    def _save(self, *, phase: Phase | None = None, **changes: object) -> None:
        self.progress = replace(
            self.progress,
            phase=phase or self.progress.phase,
            updated=time.time(),
            **changes,  # type: ignore[arg-type]
        )
        self._ledger.save(self.name, self.progress)


class _HandedOver:
    """The records of one batch on their way to a sink: those it takes, and those that it cannot."""

    def __init__(self, sink: Sink, progress: SinkProgress) -> None:
        self._sink = sink
        self._failures = progress.failures
        self.skipped = progress.skipped
        self.rejection = progress.rejection
        self.num_skipped = 0
        self._num_taken = 0
        self._errors: list[Exception] = []
        self._has_numbers = False

    def check(self) -> None:
        """Raise if the target took nothing: then the target may be at fault, not the records.

        Numbers are never rejected for what they are, so a target that rejects them is at fault.
        """
        may_be_skipped = self._failures >= _TRIES_OF_REJECTED - 1 and not self._has_numbers
        if self._errors and not self._num_taken and not may_be_skipped:
            raise self._errors[0]

    def add(self, entry: Entry) -> None:
        """Hand over a record; raises an error that may pass."""
        if not is_held(self._sink.holds, entry.content):
            self._skip(entry, "not held")
            return
        _, error = attempt(self._sink.write, entry)
        if error is None:
            self._num_taken += entry.kind not in BOOKKEEPING
        elif isinstance(error, NotHeldError):
            self._skip(entry, "not held")
        elif isinstance(error, FileMissingError):
            self._skip(entry, "file missing")
        elif self._sink.may_pass(error):
            raise error
        else:
            self._errors.append(error)
            self._has_numbers |= entry.kind in NUMBERS
            self.rejection = self.rejection or describe(error)
            self._skip(entry, "rejected")

    def _skip(self, entry: Entry, reason: Reason) -> None:
        self.num_skipped += 1
        if reason != "not held" or self._is_expected(entry):
            self.skipped = counted(self.skipped, reason, entry.content)

    def _is_expected(self, entry: Entry) -> bool:
        """Whether people would look for the record there.

        That is what they logged as samples, files and alerts, unless the target is for numbers
        only; Epochal's own records are of no use to other trackers.
        """
        return _is_for_samples(self._sink) and entry.content.startswith(_REPORTED)


def _is_for_samples(sink: Sink) -> bool:
    """Whether a target is for more than numbers."""
    return not set(sink.holds) <= set(NUMBERS)


def _words(error: BaseException) -> str:
    """Epochal's errors are sentences; errors of a tracker get their class name too."""
    return str(error) if isinstance(error, EpochalError) else describe(error)
