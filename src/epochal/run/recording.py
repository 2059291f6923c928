"""How a run's calls become lines on disk: the hot path, and what stands beside it.

``log`` has two ways. The short one is for a dict of plain finite numbers, which is nearly every
call: one encoding, one sum that vouches for all values, one write. Anything else (tensors, nested
metrics, values JSON cannot hold, mistakes) takes the careful one, which alone knows the rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from math import nan
from typing import Any

from epochal.errors import RunFinishedError, ValueTypeError
from epochal.guard import Guard, attempt
from epochal.journal.layout import RunFolder
from epochal.journal.line import MetricsRecord, decode_json, encode, encode_lines, now
from epochal.records import Record
from epochal.run.accepted import CallValues, ValuePolicy
from epochal.run.callbacks import Callbacks
from epochal.run.console_reporter import ConsoleReporter
from epochal.run.identified import IdentifiedRun
from epochal.run.progress_estimator import ProgressEstimator
from epochal.run.samples import with_distribution
from epochal.run.speed_limit import SpeedLimit
from epochal.values import MOST_BITS, DeviceReader, device_values, open_device_reader, plain_json

_time_ns = time.time_ns
# What the encoder or the sum raise for values that are no plain numbers.
_NOT_PLAIN = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError, RuntimeError)
# Kinds whose latest values the closing line repeats.
_HEADLINES = frozenset({"step", "epoch"})
# After a fault in showing metrics the next try is so much later.
_SHOW_AGAIN_S = 10.0


class RecordingRun(IdentifiedRun):
    """The part of a run that appends records."""

    rank: int
    guard: Guard
    _lock: threading.RLock
    _pace: ProgressEstimator
    _shown: ConsoleReporter
    _speed_limit: SpeedLimit
    _append: Callable[[bytes, float], None]
    _show_at: float
    _reader: DeviceReader | None
    _is_observed: bool
    _on_line: Callbacks
    _latest: bytes | Mapping[str, float]
    _values: ValuePolicy

    @property
    def values(self) -> ValuePolicy:
        """Whether values that cannot be recorded raise, and how many there were."""
        return self._values

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Append metrics at a step, by default the last one + 1; nested dicts flatten with dots.

        Values may be Python or numpy numbers or 0-d torch tensors. A text becomes a ``text``
        record, an array or a list of numbers a ``histogram``; None and anything else is left out.
        Each is said and recorded once for each name; ``init(strict=True)`` raises instead.
        """
        if step is None:
            with self._lock:
                self._step = step = self._step + 1
        elif type(step) is int:
            self._step = step
        else:
            step = self._read_step(step)
        at = _time_ns() // 1_000_000 / 1000
        try:
            line = encode_lines([MetricsRecord(at, step, metrics)])
            # A TypeError for texts, and for decimals, which the encoder would write as texts.
            zero = sum(metrics.values(), 0.0) * 0.0
        except _NOT_PLAIN:
            zero = nan
        # Not zero when a value is not finite, which JSON cannot hold.
        if zero != 0.0 or "" in metrics:
            self._log_carefully(metrics, at, step)
            return
        append = self._append  # Python calls a local faster than an attribute that is no method
        append(line, at)
        self._latest = line
        if at >= self._show_at:
            self._show_free(at, step, metrics)

    def write(self, record: Record) -> None:
        """Append one complete record, and print what belongs to its kind."""
        kind = record["log"]
        if kind == "step":
            self._step = record["step"]
            self._speed_limit.fill_step(record)
        elif kind == "sol":
            self._speed_limit.learn(record)
        elif kind == "phases":
            self._speed_limit.fill_phases(record)
        self._write_or_defer(record)

    def write_silent(self, record: Record) -> None:
        """Append one complete record of plain values, and print nothing for it."""
        self._append(encode(record), now())

    def write_directly(self) -> None:
        """Append to the journal with nothing in between; ends the start of a resumed attempt."""
        if self._writer is not None and not self._finished and not self._is_observed:
            self._append = self._writer.append

    def move_to(self, folder: RunFolder, attempt: int) -> None:
        """Move this process's part of the record into another run's folder and go on there."""
        if self._writer is not None and self._writer.move_to(folder, attempt):
            self._folder, self.attempt = folder, attempt

    def on_line(self, observe: Callable[[bytes], None]) -> None:
        """Have every line that is appended from now on shown to a function, after it is down."""
        self._on_line.add(observe)
        if self._is_observed:
            return
        self._is_observed = True
        append, tell = self._append, self._on_line.call_each

        def append_and_tell(line: bytes, at: float) -> None:
            append(line, at)
            tell(line)

        self._append = append_and_tell

    # -- inner ------------------------------------------------------------------------------------

    def _log_carefully(self, metrics: Any, at: float, step: int) -> None:
        if not isinstance(metrics, Mapping):
            raise ValueTypeError(
                f"log() takes a dict of names and numbers, not {type(metrics).__name__}."
            )
        self.check_open()
        if step.bit_length() > MOST_BITS:
            large = ValueTypeError(f"step= has {step.bit_length()} bits: too many to be written.")
            self._step = step = 0
            self.values.drop("step=", step, large, then="The record is at step 0.")
        call = CallValues(self.values)
        flat = call.metrics(metrics)
        if flat or not (call.texts or call.arrays):
            self._write_or_defer({"log": "metrics", "t": at, "step": step, "m": flat})
        self.write_samples(call, step)

    def _read_step(self, step: Any) -> int:
        """A step that is no int; one that cannot be read is the last one + 1."""
        given = self.values.step(step)
        with self._lock:
            self._step = self._step + 1 if given is None else given
            return self._step

    def _write_or_defer(self, record: Record) -> None:
        """Append now, or when the values it holds have come from the accelerator."""
        line, error = attempt(encode, record)
        if line is None and device_values(record):
            self.check_open()
            self._device_reader().defer(record)
            return
        if line is None:
            kind = record.get("log")
            wrong = ValueTypeError(f"a {kind} record cannot be stored: {error}.")
            self.values.drop(f"({kind} record)", record, wrong, then="It is stored as texts.")
            record = plain_json(record)
            line = encode(record)
        self._append(line, now())
        self._show(record)

    def _write_arrived(self, record: Record) -> None:
        """Append a record whose values have come from the accelerator."""
        if record["log"] == "histogram":
            record = with_distribution(record, record["values"])
        self._write_or_defer(record)

    def _show(self, record: Record) -> None:
        kind = record["log"]
        if kind == "metrics":
            self._latest = record["m"]
            if record["t"] >= self._show_at:
                self._show_free(record["t"], record["step"], record["m"])
            return
        if kind in _HEADLINES:
            losses = {"loss": record["loss"]} if record.get("loss") is not None else {}
            self._latest = {**losses, **(record.get("m") or {})}
        if self.rank == 0:
            self.guard.run("console", self._shown.show, record)

    def _show_free(self, at: float, step: int, metrics: Mapping[str, float]) -> None:
        pause_s = self.guard.run("console", self._pace.free, step, metrics, default=_SHOW_AGAIN_S)
        self._show_at = at + (pause_s or _SHOW_AGAIN_S)

    def _latest_metrics(self) -> Mapping[str, float]:
        """What was logged last, as it was then: the caller may have changed its dict since."""
        if isinstance(self._latest, bytes):
            metrics: dict[str, float] = decode_json(self._latest)["m"]
            return metrics
        return self._latest

    def _device_reader(self) -> DeviceReader:
        with self._lock:
            if self._reader is None:
                self._reader = open_device_reader(self._write_arrived, self._say_lost)
            return self._reader

    def _say_lost(self, count: int, reason: str) -> None:
        self._console.notice(f"{count} records whose values never came: {reason}")
        if not self._finished:
            self.event("values-lost", count=count, reason=reason)

    def check_open(self) -> None:
        """Raise when the run is finished and its last record is written."""
        if self._append == self._refuse:
            self._refuse(b"", 0.0)

    def _report_value(self, sentence: str, event: str, fields: dict[str, Any]) -> None:
        """Say and record what became of a value; what arrives after the end is said only."""
        self._console.notice(sentence)
        if not self._finished:
            self.event(event, **fields)

    def _to_nowhere(self, line: bytes, at: float) -> None:
        """Runs that are switched off check their arguments and write nothing."""

    def _refuse(self, line: bytes, at: float) -> None:
        raise RunFinishedError(
            f"run {self.name!r} is finished: start another with epochal.init(), or resume this one"
            f" with epochal.init(project={self.project!r}, name={self.name!r}, resume='must')."
        )
