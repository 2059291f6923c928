"""Turns a run's records into lines of its journal; holds its state, its step and its values.

A recorder is in one of four states. What a call of :class:`~epochal.run.run.Run` does in each:

    state      calls that record            finish()                       flush()
    open       append to the journal        writes the last record         waits for the disk
    resuming   as open; the first record    as open                        as open
               with a step has a
               ``resume`` record before it
    off        check their arguments and    becomes finished               returns at once
               write nothing
    finished   raise ``RunFinishedError``   does nothing                   returns at once

When the exit of Python has finished a run, objects that are destroyed afterwards may still call it:
what they record is appended, and the first ``finish`` says how the run ended.
``off`` is a run under ``EPOCHAL_MODE=off``. Reading members (``id``, ``config``, ``step``, …),
``phase``, ``serve`` and ``save_html`` raise in no state. The state changes in :meth:`_enter` alone,
which sets ``append``: the one function that every record goes through.

Other parts of Epochal (companion, ``epochal.torch``, ``Monitor``) use the recorder of a run, which
:func:`~epochal.run.run.recorder_of` returns. Programs use the run.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Protocol

from epochal.base.guard import Fault, Guard, attempt, called_by_program
from epochal.errors import RunFinishedError, UsageError, ValueTypeError
from epochal.exchange.media.types import Sample, sample_of
from epochal.journal.fork import call_in_children
from epochal.journal.layout import RunFolder, write_json
from epochal.journal.line import decode, decode_json, encode, now
from epochal.journal.writer import JournalWriter
from epochal.records import KINDS, Record, axis_of, finite
from epochal.records.redact import Redactor
from epochal.records.values import plain_json, single, text_of
from epochal.run.accepted import CallValues, PendingValues, ValuePolicy
from epochal.run.alerts import RunAlerts
from epochal.run.config import RunConfig
from epochal.run.console.cell import Cell
from epochal.run.console.messages import Verbosity
from epochal.run.console.printer import Console
from epochal.run.console_reporter import ConsoleReporter, Totals
from epochal.run.ending import Callbacks, Ending
from epochal.run.histogram import histogram_record, with_distribution
from epochal.run.phases import Phases
from epochal.run.samples import OverBudgetError, SampleStore
from epochal.run.summary import RunSummary
from epochal.settings import Settings

Append = Callable[[bytes, float], None]
# An array with two sides as long as this has the shape of a picture; so many names are hinted at.
_LEAST_PICTURE = 8
_HINTS = 5
# A longer list of samples is cut: the page shows them all at once.
_MOST_LISTED = 256
# After a fault in showing metrics the next try is so much later.
_SHOW_AGAIN_S = 10.0
_MFU = "train/mfu"


class RunState(str, Enum):
    """Whether a run takes records, and where they go."""

    OPEN = "open"
    RESUMING = "resuming"
    OFF = "off"
    FINISHED = "finished"

    def __str__(self) -> str:
        return self.value


class TorchFacts(Protocol):
    """What reads facts of a training with torch without being asked."""

    def leave_to_watch(self) -> None:
        """Write no more of what `watch` records too."""


class Recorder:
    """The writing half of one run; its attributes are read and set within Epochal only."""

    def __init__(
        self,
        *,
        identity: Mapping[str, Any],
        folder: RunFolder,
        writer: JournalWriter | None,
        console: Console,
        totals: Totals,
        redactor: Redactor,
        rank: int = 0,
        attempt: int = 1,
        last_step: int = -1,
        resume_step: int | None = None,
    ) -> None:
        # These five are all that ``Run.log`` touches.
        self.append: Append = _discard
        self.step = last_step
        self.lock = threading.RLock()
        self.latest: bytes | Mapping[str, float] = {}
        self.show_at = 0.0 if rank == 0 and console.enabled(Verbosity.NORMAL) else math.inf
        self.identity = dict(identity)
        self.folder = folder
        self.console = console
        self.redactor = redactor
        self.rank = rank
        self.attempt = attempt
        self.guard = console.guard = Guard(report=self._report_fault)
        if rank != 0:  # also what the program itself prints on this console
            console.set_verbosity(Verbosity.QUIET)
        self.values = ValuePolicy(self._report)
        self.samples = SampleStore(self, self._report)
        self._hinted: set[str] = set()
        self.epoch = 0
        self.cell: Cell | None = None
        self.page_url: str | None = None
        self.has_archive = False
        self.settings: Settings | None = None
        self.torch_facts: TorchFacts | None = None
        self.ending = Ending(self)
        self._last_line = b""
        self.on_tick = Callbacks("on_tick", self.guard)
        self._on_line = Callbacks("on_line", self.guard)
        self.config = RunConfig(self)
        self.summary = RunSummary(self)
        self.alerts = RunAlerts(self)
        self._writer = writer
        self._pending = PendingValues(self.write_arrived, self.report_lost)
        self.reporter = ConsoleReporter(console, totals, name=self.name)
        self._speed_limit = _SpeedLimit()
        self._enter(RunState.OFF if writer is None else RunState.OPEN)
        if attempt > 1 and rank == 0 and writer is not None:
            self._begin_resuming(resume_step)
        self.phases = Phases(self)
        self.ending.on_end.add(self.phases.finish)
        self.ending.on_end.add(self._write_value_counts)
        self.ending.after_finish.add(self._print_closing_line)
        if writer is not None:
            writer.on_tick = self.on_tick.call_each
        call_in_children(self)

    # -- state ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.identity["name"])

    @property
    def finished(self) -> bool:
        """Whether the last record is written."""
        return self.state is RunState.FINISHED

    @property
    def is_recorded(self) -> bool:
        """Whether the run has a journal; False for one that was started switched off."""
        return self._writer is not None

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process started the run; False in a forked child."""
        return bool(self.identity.get("pid") == os.getpid())

    @property
    def lost_records(self) -> int:
        """How many records this process could not write."""
        return 0 if self._writer is None else self._writer.lost_total

    def set_total_steps(self, total: int) -> None:
        """Set how many steps the run is to have, for those who watch it."""
        self.identity["totals"] = {"steps": total}
        self.reporter.set_total_steps(total)
        if self._writer is not None and self.rank == 0:
            with contextlib.suppress(OSError):  # what is shown matters less than the training
                write_json(self.folder.identity, self.redactor.identity(self.identity))

    def check_open(self) -> None:
        """Raise when the run is finished."""
        if self.finished and not self.ending.is_ended_by_exit:
            raise self._is_finished()

    def _enter(self, state: RunState) -> None:
        """Change the state, and with it where records go."""
        self.state = state
        if state is RunState.FINISHED:
            self.append, self.show_at = self._append_late, math.inf
            return
        append: Append = self._append_resuming
        if state is not RunState.RESUMING:
            append = _discard if self._writer is None else self._writer.append
        self.append = self._observed(append) if self._on_line else append

    def _begin_resuming(self, step: int | None) -> None:
        """Older attempts' records from a step on are hidden in views; nothing is erased."""
        if step is None:
            self._enter(RunState.RESUMING)  # the first step that is logged says where
        else:
            self._write_resume(step)
            self.step = step - 1

    def end_resuming(self) -> None:
        """Go on without a ``resume`` record: nothing of older attempts is hidden."""
        if self.state is RunState.RESUMING:
            self._enter(RunState.OPEN)

    def _append_resuming(self, line: bytes, at: float) -> None:
        step = _step_of(line)
        if step is not None:
            with self.lock:
                if self.state is RunState.RESUMING:
                    self._write_resume(step)
                    self._enter(RunState.OPEN)
        if self._writer is not None:
            self._writer.append(line, at)

    def _write_resume(self, step: int) -> None:
        record = {"log": "resume", "t": now(), "attempt": self.attempt, "step": step}
        if self._writer is not None:
            self._writer.append(encode(record), now())

    def _append_late(self, line: bytes, at: float) -> None:
        """Raise, unless an object logs that Python destroys while the process ends."""
        self.check_open()
        if self._writer is not None:
            self._writer.append_after_close(line, self._last_line)

    def _is_finished(self) -> RunFinishedError:
        project = str(self.identity["project"])
        return RunFinishedError(
            f"run {self.name!r} is finished: start another with epochal.init(), or resume this one"
            f" with epochal.init(project={project!r}, name={self.name!r}, resume='must')."
        )

    def continue_in_child(self) -> None:
        """After a fork: a child prints nothing, resumes nothing and waits for no thread."""
        if self.finished:
            return
        self.lock = threading.RLock()
        # The parent writes what it deferred; its threads do not exist here, and flush would wait.
        self._pending = PendingValues(self.write_arrived, self.report_lost)
        self.rank = -1
        self.show_at = math.inf
        self.on_tick.clear()
        self._on_line.clear()
        self.ending.after_finish.clear()
        self.phases.stop()
        self._enter(self.state)
        self.end_resuming()

    def move_to(self, folder: RunFolder, attempt: int) -> None:
        """Move this process's part of the record into another run's folder and go on there."""
        self.samples.copy_to(folder)
        if self._writer is not None and self._writer.move_to(folder, attempt):
            self.folder, self.attempt = folder, attempt

    def observe(self, call: Callable[[bytes], None]) -> None:
        """Have every line that is appended from now on shown to a function, after it is down."""
        self._on_line.add(call)
        self._enter(self.state)

    def _observed(self, append: Append) -> Append:
        def append_and_tell(line: bytes, at: float) -> None:
            append(line, at)
            self._on_line.call_each(line)

        return append_and_tell

    # -- records ----------------------------------------------------------------------------------

    def call(self, kind: str) -> CallValues:
        """What reads the values of one typed call; raises when the run is finished."""
        self.check_open()
        return CallValues(self.values, prefix=KINDS[kind].prefix)

    def next_step(self, step: Any) -> int:
        """A given step as a whole number; one that cannot be read is the last one + 1."""
        given = self.values.step(step)
        return self.step + 1 if given is None else given

    def sample_step(self, step: Any) -> int:
        """The step a sample belongs to: the given one, the last that was logged, or the epoch."""
        given = None if step is None else self.values.step(step)
        if given is not None:
            return given
        return self.step if self.step >= 0 else self.epoch

    def read_step(self, step: Any) -> int:
        """The step of a ``log`` call that is no int; it becomes the last one."""
        given = self.values.step(step)
        with self.lock:
            self.step = self.step + 1 if given is None else given
            return self.step

    @called_by_program("run.log", lambda recorder: recorder.guard)
    def log_carefully(self, metrics: Any, at: float, step: int) -> None:
        """Record the metrics that the short way of ``Run.log`` cannot encode."""
        if not isinstance(metrics, Mapping):
            raise ValueTypeError(
                f"log() takes a dict of names and numbers, not {type(metrics).__name__}."
            )
        self.check_open()
        if self.values.step(step) is None:  # one too large to be written
            self.step = step = 0
        call = CallValues(self.values)
        flat = call.metrics(metrics)
        if flat or not call.samples:
            self._write_or_defer({"log": "metrics", "t": at, "step": step, "m": flat})
        self.write_samples(call, step)

    def write(self, record: Record | None) -> None:
        """Append one complete record, and print what belongs to its kind; None is no record."""
        if record is None:
            return
        kind = record["log"]
        if kind == "step":
            self.step = record["step"]
            self._speed_limit.fill_step(record)
        elif kind == "sol":
            self._speed_limit.learn(record)
        elif kind == "phases":
            self._speed_limit.fill_phases(record)
        elif kind == "event" and record["name"] == "checkpoint":
            self.ending.checkpoint = record.get("path")
        self._write_or_defer(record)

    def write_silent(self, record: Record) -> None:
        """Append one complete record of plain values, and print nothing for it."""
        self.append(encode(self._redacted(record)), now())

    def _redacted(self, record: Record) -> Record:
        """Return the record without secrets in what the program said, and name them once."""
        said = self.redactor.record(record)
        if said is not record:
            self.redactor.notice(self.console.notice)
        return said

    def event(self, name: str, **fields: Any) -> None:
        """Append something that happened, at the last step; secrets in its fields are redacted."""
        call = self.call("event")
        if (known := call.name(name)) is not None:
            at = {"step": self.step} if self.step >= 0 else {}
            own = self.redactor.config(plain_json(call.own(fields)))
            self.write({"log": "event", "t": now(), "name": known, **at, **own})
            self.redactor.notice(self.console.notice)

    def keep_output(self, stream: str, line: str) -> None:
        """Append a line that the program printed."""
        self.write({"log": "message", "t": now(), "level": stream, "text": line})

    def write_samples(self, call: CallValues, step: int | None) -> None:
        """Append the texts, samples and arrays among the metrics of a call."""
        for name, value in call.samples:
            at = self.sample_step(step)
            text = attempt(_text_of_sample, value)[0]
            if text is not None:
                self.write_text(name, text, at)
                continue
            found, error = attempt(sample_of, value)
            if error is not None:
                self.report_unstored(name, value, error)
            elif found is not None:
                self.write_sample(name, found, at)
            else:
                self.write_histogram(name, value, at)

    def write_sample(
        self, name: str, sample: Sample | list[Sample], step: int, *, t: float | None = None
    ) -> None:
        """Store a sample, or a list of them, and append the records; what cannot be is noted."""
        if self._writer is None:
            return
        several = sample if isinstance(sample, list) else [sample]
        if len(several) > _MOST_LISTED:
            count = f"a list of {len(several):,} samples is cut after {_MOST_LISTED}"
            self.console.notice(f"{name!r}: {count}. Log a table of them to keep more.")
        for index, one in enumerate(several[:_MOST_LISTED]):
            record, error = attempt(one.record, self.samples)
            if error is not None:
                self.report_unstored(name, one, error)
            elif record is not None:
                place = {"index": index} if isinstance(sample, list) else {}
                at = now() if t is None else t
                self.write({"log": "", "t": at, "step": step, "name": name, **record, **place})

    def report_unstored(self, name: str, value: Any, error: Exception) -> None:
        """Report a sample or a file that could not be stored."""
        if isinstance(error, OverBudgetError):
            self.values.drop("(samples)", value, error, then="")
        elif isinstance(error, OSError) and error is not attempt(getattr, value, "error", None)[0]:
            lost = f"{name!r} could not be stored: {error}"
            self._report(lost, "blob-lost", name_of=name, reason=str(error))
        else:
            named = f"{name!r}: {error}" if isinstance(error, UsageError) else error
            self.values.drop(name, value, named)

    def write_text(self, name: str, text: str, step: int) -> None:
        """Append a text."""
        self.write({"log": "text", "t": now(), "step": step, "name": name, "text": text})

    def write_histogram(self, name: str, values: Any, step: int, *, bins: int = 64) -> None:
        """Append the distribution of many values; what has none is noted."""
        made = partial(histogram_record, now(), name=name, step=step, bins=bins)
        record = self.values.read(name, lambda many: made(values=many), values)
        self.write(record)
        if record is not None:
            self._hint_at_picture(name, attempt(_shape_of, values)[0] or ())

    def _hint_at_picture(self, name: str, shape: tuple[int, ...]) -> None:
        has_channels = len(shape) in (3, 4) and (shape[-3] in (1, 3) or shape[-1] in (1, 3, 4))
        if has_channels and sorted(shape[-3:])[1] >= _LEAST_PICTURE and len(self._hinted) < _HINTS:
            self._hinted.add(name)
            self.console.notice(
                f"{name!r} has the shape of a picture, and the distribution of its values is"
                " recorded. Log epochal.Image(array) to see the picture."
            )

    def flush(self) -> None:
        """Wait until everything logged so far is on the disk itself; raises OSError if not."""
        self._pending.flush()
        if self._writer is not None and not self.finished:
            self._sync()

    def sync_within(self, limit_s: float) -> bool:
        """Wait so many seconds for the disk, at the end; False if it has not answered by then.

        What it did not store is reported. After the last record this waits for that record alone.
        """
        if self._writer is None:
            return True
        call = self._writer.sync_closed if self.finished else self._sync
        stack = self.guard.wait_for("sync", _unless_it_fails, call, budget_s=limit_s)
        if stack is not None:
            self.console.notice(
                f"the disk has not stored all records of run {self.name!r} within {limit_s:.1f} s,"
                " and finish() no longer waits for it. Until it has, power loss can lose them."
            )
        return stack is None

    def _sync(self) -> None:
        assert self._writer is not None
        try:
            self.samples.sync()
        finally:
            self._writer.sync()

    def _write_or_defer(self, record: Record) -> None:
        """Append now, or when the values it holds have come from the accelerator."""
        record = self._redacted(record)
        line, error = attempt(encode, record)
        if line is None:
            self.check_open()
            if self._pending.defer(record):
                return
            kind = record.get("log")
            wrong = ValueTypeError(f"a {kind} record cannot be stored: {error}.")
            self.values.drop(f"({kind} record)", record, wrong, then="It is stored as texts.")
            record = plain_json(record)
            line = encode(record)
        self.append(line, now())
        self._show(record)

    def write_arrived(self, record: Record) -> None:
        """Append a record whose values have come from the accelerator."""
        if record["log"] == "histogram":
            record = with_distribution(record, record["values"])
        self._write_or_defer(record)

    def report_lost(self, count: int, reason: str) -> None:
        """Report records whose values never came from the accelerator."""
        lost = f"{count} records whose values never came: {reason}"
        self._report(lost, "values-lost", count=count, reason=reason)

    # -- terminal ---------------------------------------------------------------------------------

    def show_metrics(self, at: float, step: int, metrics: Mapping[str, Any]) -> None:
        """Print the line of free metrics, and work out when the next one is due."""
        pause_s = self.guard.run(
            "console", self.reporter.free, step, metrics, default=_SHOW_AGAIN_S
        )
        self.show_at = at + (pause_s or _SHOW_AGAIN_S)

    def _show(self, record: Record) -> None:
        kind = record["log"]
        if kind == "metrics":
            self.latest = record["m"]
            if record["t"] >= self.show_at:
                self.show_metrics(record["t"], record["step"], record["m"])
            return
        if kind in ("step", "epoch"):  # whose latest values the closing line repeats
            losses = {"loss": record["loss"]} if record.get("loss") is not None else {}
            self.latest = {**losses, **(record.get("m") or {})}
        if self.rank == 0:
            self.guard.run("console", self.reporter.show, record)

    def _print_closing_line(self, status: str) -> None:
        if self.rank == 0 and self.is_of_this_process:
            latest = self.latest  # as it was then: the caller may have changed its dict since
            metrics = decode_json(latest)["m"] if isinstance(latest, bytes) else latest
            self.reporter.close(status, metrics)
            if self._writer is not None:
                self.ending.report_interruption(status)
            if self.lost_records:
                self.console.notice(f"{self.lost_records} records of run {self.name!r} were lost.")

    # -- faults -----------------------------------------------------------------------------------

    def _report(self, sentence: str, event: str, **fields: Any) -> None:
        """Report something on the terminal and, until the end of the run, as an event."""
        self.console.notice(sentence)
        if not self.finished:
            self.event(event, **fields)

    def _report_fault(self, fault: Fault) -> None:
        """Record the first fault of a member, and print it on stderr."""
        where = f"internal error in {fault.member} of run {self.name!r}: {fault.error}."
        then = "Training goes on; 'epochal doctor --json' has the traceback."
        self._report(f"{where} {then}", "internal-error", **fault.fields())
        if self.finished and self._writer is not None:
            record = {"log": "event", "t": now(), "name": "internal-error", **fault.fields()}
            self._writer.append_after_close(encode(record), self._last_line)

    def _write_value_counts(self) -> None:
        """Record how often values were left out, where once is not all."""
        if any(count > 1 for count in self.values.dropped.values()):
            self.event("value-counts", dropped=dict(self.values.dropped))

    def write_fault_counts(self) -> None:
        """Record how often members failed, where once is not all."""
        counts = self.guard.repeated
        if counts and not self.finished:
            self.event("internal-errors", counts=counts)

    # -- the end ----------------------------------------------------------------------------------

    def flush_values(self) -> None:
        """Wait for values that are still on an accelerator."""
        if self.is_of_this_process:
            self.guard.run("device values", self._pending.flush)

    def write_last_record(self, outcome: Mapping[str, str]) -> None:
        """Write the ``finish`` record and close; from then on the run is finished everywhere."""
        with self.lock:
            if not self.finished:
                self._last_line = self._finish_line(outcome)
                self.append(self._last_line, now())
                self._enter(RunState.FINISHED)
        if self._writer is not None:
            self._writer.close()

    def write_last_record_again(self, outcome: Mapping[str, str]) -> None:
        """Write another ``finish`` record, which is valid instead of the one that is there."""
        self._last_line = self._finish_line(outcome)
        if self._writer is not None:
            self._writer.append_after_close(self._last_line)

    def _finish_line(self, outcome: Mapping[str, str]) -> bytes:
        last_step = {"last_step": self.step} if self.step >= 0 else {}
        record = {"log": "finish", "t": now(), **outcome, **last_step}
        return encode(self.redactor.record(record))


def _unless_it_fails(sync: Callable[[], None]) -> None:
    """Sync; the one who syncs has reported it if the disk fails."""
    with contextlib.suppress(OSError):
        sync()


def _discard(line: bytes, at: float) -> None:
    """Where the records of a run go that is switched off."""


def _text_of_sample(value: Any) -> str | None:
    """Return the text that a metric is; the texts of a list are its lines."""
    if not isinstance(value, (list, tuple)):
        return text_of(value)
    texts = [text for one in value if (text := text_of(one)) is not None]
    return "\n".join(texts) if len(texts) == len(value) else None


def _shape_of(values: Any) -> tuple[int, ...]:
    """The shape of an array, or of the first one of a list; empty for anything else."""
    first = values[0] if isinstance(values, (list, tuple)) and len(values) else values
    return tuple(getattr(first, "shape", ()))


def _step_of(line: bytes) -> int | None:
    """The step of a record on the step axis; events and telemetry only carry the last one."""
    record = decode(line) or {}
    step = record.get("step") if axis_of(record) == "step" else None
    return step if isinstance(step, int) else None


class _SpeedLimit:
    """Remembers the last ``sol`` record and completes later records with it."""

    def __init__(self) -> None:
        self._tps: float | None = None
        self._useful_tps: float | None = None
        self._tokens: float | None = None

    def learn(self, record: Mapping[str, Any]) -> None:
        """Keep the estimate; without a speed in it steps stay as they are."""
        self._tps = _speed(record.get("tps"))
        self._useful_tps = _speed(record.get("useful_tps"))

    def fill_phases(self, record: Record) -> None:
        """Add the time that a step like the last one takes at the speed of light."""
        if self._tps is not None and self._tokens:
            record["ideal_ms"] = round(1000.0 * self._tokens / self._tps, 4)

    def fill_step(self, record: Record) -> None:
        """Add ``sol``, and MFU among the metrics, both in percent, where the caller gave none."""
        if self._tps is None:
            return
        tokens, duration_ms = record.get("step_tokens"), record.get("duration_ms")
        self._tokens = tokens
        if not tokens or not duration_ms or not duration_ms > 0:
            return
        per_second = tokens / duration_ms * 1000.0
        record.setdefault("sol", single(100.0 * per_second / self._tps))
        if self._useful_tps is None:
            return
        metrics = record.get("m") or {}
        if _MFU not in metrics and "mfu" not in metrics:
            record["m"] = {**metrics, _MFU: single(100.0 * per_second / self._useful_tps)}


def _speed(value: Any) -> float | None:
    speed = finite(value)
    return speed if speed is not None and speed > 0 else None
