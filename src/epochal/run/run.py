"""A run: turns calls into records and appends them. It answers no questions; the store does.

When a ``log`` call has returned, its record is in the kernel's hands and the death of this process
cannot lose it. Calls may come from any thread and from forked children. Misuse raises at once; what
the outside world does (a full disk, a folder that vanished) never reaches the caller.
"""

from __future__ import annotations

import contextlib
import html
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from epochal.console.lines import closing_line, section_line
from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.errors import ValueTypeError
from epochal.guard import Fault, Guard, attempt
from epochal.journal.archive_request import (
    WAIT_S,
    WAIT_WHEN_STOPPED_S,
    request_archive,
    write_requested_archives,
)
from epochal.journal.fork import call_in_children
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode, now
from epochal.journal.writer import JournalWriter
from epochal.records import Record
from epochal.redact import Redactor
from epochal.run import notebook, samples
from epochal.run.accepted import ValuePolicy, shown_text
from epochal.run.callbacks import Callbacks
from epochal.run.cell import Cell
from epochal.run.config import RunConfig
from epochal.run.console_reporter import ConsoleReporter
from epochal.run.deadline import FINISH_WAIT_S, Deadline
from epochal.run.exit_hooks import describe_error, describe_trace
from epochal.run.live_page import serve_in_background
from epochal.run.memory_fault import MemoryGuard, explain_out_of_memory
from epochal.run.phases import Phase, Phases
from epochal.run.progress_estimator import ProgressEstimator, Totals
from epochal.run.recording import RecordingRun
from epochal.run.resume import ResumeMark
from epochal.run.speed_limit import SpeedLimit
from epochal.settings import Settings, file_environment, settings_environment
from epochal.torch_hooks import torch_hooks
from epochal.values import plain_json


class Run(RecordingRun):
    """One training run. Made by :func:`epochal.init`; a context manager that finishes itself."""

    def __init__(
        self,
        *,
        identity: Mapping[str, Any],
        folder: RunFolder,
        writer: JournalWriter | None,
        console: Console,
        totals: Totals,
        rank: int = 0,
        attempt: int = 1,
        last_step: int = -1,
        resume_step: int | None = None,
        redactor: Redactor,
    ) -> None:
        self.guard = console.guard = Guard(report=self._report_fault)
        self._identity = dict(identity)
        self._config = RunConfig(identity.get("config") or {}, self.set_config)
        self.redactor = redactor
        self._folder = folder
        self._writer = writer
        self._console = console
        self._pace = ProgressEstimator(console, totals, name=str(identity["name"]))
        self._shown = ConsoleReporter(console, self._pace)
        self.rank = rank
        self.attempt = attempt
        self._step = last_step
        self._started = time.monotonic()
        self._lock = threading.RLock()
        self._finished = False
        self._is_observed = False
        self._reader = None
        self._page: str | None = None
        self._latest = {}
        self._values = ValuePolicy(self._report_value)
        self._show_at = 0.0 if rank == 0 and console.enabled(Verbosity.NORMAL) else math.inf
        self._append = self._to_nowhere if writer is None else writer.append
        self._on_tick = Callbacks("on_tick", self.guard)
        self._on_line = Callbacks("on_line", self.guard)
        self._on_finish = Callbacks("on_finish", self.guard)
        self._on_close = Callbacks("on_close", self.guard)
        self._after_finish = Callbacks("after_finish", self.guard)
        self._is_ending = False
        self._ending: Record = {}
        self.cell: Cell | None = None
        self.finish_wait_s = FINISH_WAIT_S
        self.settings: Settings | None = None
        self.deadline = Deadline()
        if attempt > 1 and rank == 0 and writer is not None:
            self._append = ResumeMark(self, writer, resume_step).append
            self._step = last_step if resume_step is None else resume_step - 1
        self._speed_limit = SpeedLimit()
        self._phases = Phases(self)
        self.on_finish(self._phases.finish)
        self.on_finish(self._count_values)
        self.after_finish(self._say_goodbye)
        if writer is not None:
            writer.on_tick = self._on_tick.call_each
        call_in_children(self)
        if "torch" in sys.modules:
            hot = (Run.log, Run.write, Phase.__enter__, Phase.__exit__)
            torch_hooks().exclude_from_compile(*hot)

    def __repr__(self) -> str:
        return f"<epochal run {self.project}/{self.name} at {self.dir}>"

    def _repr_html_(self) -> str:
        """In a notebook: the live page, and the archive once the run has finished."""
        shown = None
        if self.is_recorded and self._finished:
            shown = notebook.archive_frame(self.dir)
        elif self.is_recorded:
            if self._page is None:
                self._page = self.serve()
            shown = None if self._page is None else notebook.live_frame(self._page)
        return shown or f"<code>{html.escape(repr(self))}</code>"

    # -- samples and words ------------------------------------------------------------------------

    def log_image(
        self, name: str, image: Any, step: int | None = None, *, caption: str | None = None
    ) -> None:
        """Append an image: an array (H×W, H×W×C, C×H×W), a PIL image, encoded bytes or a path."""
        known = self._call("blob").name(name)
        if self._writer is None or known is None:
            return
        record, error = attempt(
            samples.image_record,
            now(),
            folder=self._folder,
            name=known,
            image=image,
            step=self.sample_step(step),
            caption=caption,
        )
        if record is not None:
            self.write(record)
        elif isinstance(error, OSError):
            self._console.notice(f"image {known!r} could not be stored: {error}")
            self.event("blob-lost", name_of=known, reason=str(error))
        else:
            self._values.drop(known, image, error or "no image")

    def message(self, text: str, *, level: str = "info") -> None:
        """Append a message for people, and print it at its level."""
        text, level = shown_text(text), shown_text(level)
        self.write({"log": "message", "t": now(), "level": level, "text": text})
        if level in ("error", "warning"):
            self._console.notice(text)
        elif self.rank == 0:
            shown = Verbosity.DEBUG if level == "debug" else Verbosity.NORMAL
            self._console.message("%s", text, level=shown)

    def keep_output(self, stream: str, line: str) -> None:
        """Append a line the program printed; what ``init(capture=True)`` does."""
        self.write({"log": "message", "t": now(), "level": stream, "text": line})

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Time a section: print and record how long it took."""
        begun, name = time.monotonic(), shown_text(name)
        try:
            yield
        finally:
            seconds = time.monotonic() - begun
            self.write(
                {
                    "log": "message",
                    "t": now(),
                    "level": "info",
                    "text": name,
                    "duration_ms": round(seconds * 1000.0, 3),
                }
            )
            self._console.line(lambda: section_line(name, seconds=seconds))

    def phase(self, name: str) -> Phase:
        """Time a part of each step, as a context manager or a decorator; on a GPU by its clock.

        ``data``, ``forward``, ``backward``, ``optimizer``, ``sync``, ``eval``, ``save`` and ``log``
        are understood by what explains lost time; any other name will do. Phases may stand inside
        one another. Costs a microsecond, never waits, never raises once it is made.
        """
        known = name if type(name) is str and name else self._call("phases").name(name)
        return self._phases.named("unnamed" if known is None else known)

    def set_config(self, values: Mapping[str, Any], *, show: bool = False) -> None:
        """Add to the configuration after the start; one ``option`` record per key."""
        plain = plain_json(values)
        if not isinstance(plain, dict):
            raise ValueTypeError("set_config takes a mapping of names to values.")
        recorded = self.redactor.config(plain)
        for key, value in recorded.items():
            self.write({"log": "option", "t": now(), "name": key, "value": value})
        self._config.take(plain)
        if show and self.rank == 0:
            self._shown.options(recorded)
        if (told := self.redactor.notice()) is not None:
            self._console.notice(told)

    # -- faces and the end ------------------------------------------------------------------------

    def serve(self, port: int | None = None) -> str | None:
        """Show this run and its neighbours live in a browser; None on failure.

        Gives the address, which opens the page on this run. A process of its own serves 127.0.0.1
        and goes on for a minute after this one ends.
        """
        if not self.is_recorded:
            return None
        folder = self.dir.parent.parent
        same = {} if self.settings is None else file_environment(self.settings)
        return self.guard.run("live page", serve_in_background, folder, port, self.id, same)

    def save_html(self, path: str | Path) -> None:
        """Have the run written as one HTML file when it ends, however; at once if it has ended.

        Called with several paths, it writes each of them. Folders on the way are made now.
        """
        if not self.is_recorded:
            return
        try:
            Path(path).expanduser().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._console.notice(f"the archive {path} cannot be written: {error}.")
        request_archive(self._folder, path)
        if self._finished:
            self._write_archive()
        elif self.rank == 0 and self._write_archive not in self._after_finish:
            self.after_finish(self._write_archive)

    def flush(self) -> None:
        """Wait until everything logged so far is on the disk itself and power loss spares it."""
        if self._reader is not None:
            self._reader.flush()
        if self._writer is not None:
            self._writer.sync()

    def finish(self, status: str = "finished", *, reason: str | None = None) -> None:
        """End the run: write the last record and close.

        Whatever callbacks raise, the record is written. Calling it again does nothing, except that
        it completes what an interruption left undone.
        """
        if not isinstance(status, str):
            raise ValueTypeError(f"status must be a text, not {type(status).__name__}.")
        with ExitStack() as stack:
            stack.callback(self.settle)
            self._end(status, reason)

    def on_finish(self, close: Callable[[], object]) -> None:
        """Have something called when the run finishes, before its last record is written."""
        self._on_finish.add(close)

    def on_close(self, call: Callable[[], object]) -> None:
        """Have something called when the last record is written and the journal is closed."""
        self._on_close.add(call)

    def after_finish(self, call: Callable[[str], object]) -> None:
        """Have something called with the status when the run has finished and is closed.

        What it waits for ends at ``run.deadline``, which all of these calls share.
        """
        self._after_finish.add(call)

    def on_tick(self, call: Callable[[], object]) -> None:
        """Have something called between two records, at most once a second."""
        self._on_tick.add(call)

    def on_exit(self, status: str, *, reason: str, details: str | None = None) -> None:
        """The process is ending: write what is known of it and the last record, and close."""
        if not self._finished and details is not None:
            with self.guard.member("exit hook"):
                self.event("exception", reason=reason, traceback=details)
        if self._is_ending:  # a signal came in the middle of finish(): there may be no more time
            self._write_last_record()
        self._end(status, reason)

    def on_exception(self, error: BaseException) -> None:
        """An error ends the run: explain it where that can be done."""
        self.guard.run("out-of-memory report", explain_out_of_memory, self, error)

    def settle(self) -> None:
        """Do what follows the last record: print the last line, wait for what is forwarded."""
        if self._finished:
            self._after_finish.drain(self._ending["status"])

    def memory_guard(self, model: Any = None, optimizer: Any = None) -> MemoryGuard:
        """A ``with`` block: an out-of-memory error in it is explained in the run and goes on.

        For programs that catch such errors; one that ends the run is explained by itself.
        """
        return MemoryGuard(self, model, optimizer)

    def on_signal(self, reason: str) -> None:
        """A signal came that the program handles itself."""
        if not self._finished:
            with self.guard.member("exit hook"):
                self.event("signal", reason=reason)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
            return
        if isinstance(error, SystemExit):
            code = error.code
            failed = code not in (None, 0)
            self.finish(
                "failed" if failed else "finished", reason=f"exit code {code}" if failed else None
            )
            return
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        with ExitStack() as stack:
            stack.callback(self.settle)
            stack.callback(
                self.on_exit, status, reason=describe_error(error), details=describe_trace(error)
            )
            self.on_exception(error)

    # -- inner ------------------------------------------------------------------------------------

    def _end(self, status: str, reason: str | None) -> None:
        """The exit stack up to the last record: each step once, whatever the ones before raised."""
        with self._lock:
            if self._is_ending:
                return  # called by a callback, or by another thread
            self._is_ending = True
            if not self._ending:
                self._ending = {"status": status, **({} if reason is None else {"reason": reason})}
                self.deadline = Deadline(self.finish_wait_s, status=status)
        try:
            with ExitStack() as stack:  # last in, first out
                stack.callback(self._on_close.drain)
                stack.callback(self._write_last_record)
                stack.callback(self._write_fault_counts)
                stack.callback(self._flush_values)  # those that callbacks logged
                stack.callback(self._on_finish.drain)
                stack.callback(self._flush_values)
        finally:
            self._is_ending = False

    def _flush_values(self) -> None:
        if self._reader is not None and self.is_of_this_process:
            self.guard.run("device values", self._reader.flush)

    def _write_fault_counts(self) -> None:
        counts = self.guard.repeated
        if counts and not self._finished:
            self.event("internal-errors", counts=counts)

    def _write_last_record(self) -> None:
        """Write the ``finish`` record and close; from then on the run is finished everywhere."""
        with self._lock:
            if not self._finished:
                record: Record = {"log": "finish", "t": now(), **self._ending}
                if self._step >= 0:
                    record["last_step"] = self._step
                self._append(encode(record), now())
                self._finished = True
                self._append = self._refuse
                self._show_at = math.inf
        if self._writer is not None:
            self._writer.close()

    def _report_fault(self, fault: Fault) -> None:
        """The first fault of a member: into the record, and on stderr."""
        self._console.notice(
            f"internal error in {fault.member} of run {self.name!r}: {fault.error}."
            " Training goes on; 'epochal doctor --json' has the traceback."
        )
        if not self._finished:
            self.event("internal-error", **fault.fields())
        elif self._writer is not None:
            record = {"log": "event", "t": now(), "name": "internal-error", **fault.fields()}
            self._writer.append_after_close(encode(record))

    def continue_in_child(self) -> None:
        """After a fork: a child prints nothing, resumes nothing and waits for no thread."""
        if self._finished:
            return
        self._lock = threading.RLock()
        self.rank = -1
        self._show_at = math.inf
        self._is_observed = False
        self._on_tick.clear()
        self._on_line.clear()
        self._after_finish.clear()
        self._phases.abandon()
        self.write_directly()

    def _count_values(self) -> None:
        """Record how often values were dropped or converted, where once is not all."""
        counts = self._values.repeated()
        if counts:
            self.event("value-counts", **counts)

    def _write_archive(self, status: str = "finished") -> None:
        if not self.is_of_this_process:
            return
        wait_s = WAIT_S if status == "finished" else WAIT_WHEN_STOPPED_S
        same = {} if self.settings is None else settings_environment(self.settings)
        for archive in write_requested_archives(self._folder, wait_s=wait_s, environment=same):
            if archive.is_written:
                self._console.line(f"epochal: {archive.sentence}")
            else:
                self._console.notice(archive.sentence)

    def _say_goodbye(self, status: str) -> None:
        if self.rank != 0 or not self.is_of_this_process:
            return
        if not self._pace.has_printed:
            self._console.close()
            return
        seconds = time.monotonic() - self._started
        verb = {"finished": "complete in", "failed": "failed after"}.get(status, "stopped after")
        self._console.closing(closing_line(seconds, metrics=self._latest_metrics(), verb=verb))
        if self.lost_records:
            self._console.notice(f"{self.lost_records} records of run {self.name!r} were lost.")
