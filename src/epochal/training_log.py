"""``TrainingRunLogger``: a run that also keeps one JSON array file, valid after every record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from epochal.console.messages import LogVerbosity
from epochal.console.printer import Console
from epochal.errors import UsageError
from epochal.journal.array import ArrayFile, with_iso_time
from epochal.journal.line import decode, encode_json, now
from epochal.records import Record
from epochal.run.accepted import ValuePolicy
from epochal.run.current import OPEN_RUNS
from epochal.run.phases import Phase
from epochal.run.run import Run
from epochal.run.start import init
from epochal.run.vocabulary import Vocabulary

# Every step has its line, unless they come faster than anybody reads.
_LINE_EVERY_S = 0.1
_CALLBACK = "TrainingRunLogger callback"


class TrainingRunLogger(Vocabulary):
    """Typed logging into ``path``, into a run, and to ``callback`` as JSON lines.

    The current run is used when there is one; otherwise a run named after the file is started,
    which ``total_steps``, ``total_tokens`` and ``num_epochs`` give percent and time left.
    ``verbosity`` other than DEFAULT holds for the lines of either until ``close``. The file is
    appended to when it exists. A file that cannot be opened raises here; one that cannot be written
    later is counted and said once, and the run goes on. A callback that raises is told of once and
    not called any more after the third time.
    """

    def __init__(
        self,
        path: str | Path,
        callback: Callable[[str], object] | None = None,
        verbosity: LogVerbosity | int = LogVerbosity.DEFAULT,
        *,
        total_steps: int | None = None,
        total_tokens: int | None = None,
        num_epochs: float | None = None,
    ) -> None:
        level = _checked_level(verbosity)
        current = OPEN_RUNS.current
        totals = (total_steps, total_tokens, num_epochs)
        if current is not None and totals != (None, None, None):
            raise UsageError(
                f"total_steps, total_tokens and num_epochs belong to run {current.name!r}, which is"
                " open: give them to epochal.init()."
            )
        self._file = ArrayFile(path)
        self._callback = callback
        self._is_open = True
        self.lost = 0
        self._owns_run = current is None
        self._restore: Callable[[], object] = _nothing
        if current is None:
            console = Console(verbosity=level, min_interval_s=_LINE_EVERY_S)
            current = init(
                name=Path(path).stem,
                console=console,
                total_steps=total_steps,
                total_tokens=total_tokens,
                num_epochs=num_epochs,
            )
        elif level is not LogVerbosity.DEFAULT:
            self._restore = current.console.set_verbosity(level)
        self.run: Run = current
        self.run.on_line(self._on_line)

    def write(self, record: Record) -> None:
        """Append one record to the run, and with it to the file."""
        self.run.write(record)

    @property
    def values(self) -> ValuePolicy:
        """Whether values that cannot be recorded raise, and how many there were."""
        return self.run.values

    def check_open(self) -> None:
        """Raise when the run is finished."""
        self.run.check_open()

    @property
    def step(self) -> int:
        """The last training step that was logged, -1 before the first."""
        return self.run.step

    def message(self, text: str, *, level: str = "info") -> None:
        """Record a message for people, and print it at its level."""
        self.run.message(text, level=level)

    def section(self, name: str) -> AbstractContextManager[None]:
        """Time a section: prints and records how long it took."""
        return self.run.section(name)

    def phase(self, name: str) -> Phase:
        """Time a part of a step: ``with logger.phase("data"):``, or as a decorator."""
        return self.run.phase(name)

    def log_cmd(self, arguments: list[str]) -> None:
        """Record the command line, without secrets."""
        words = [str(one) for one in arguments]
        self.run.write({"log": "cmd", "t": now(), "cmd": self.run.redactor.command(words)})

    def log_options(self, options: dict[str, Any]) -> None:
        """Record options, one record each, and print them as a table."""
        self.run.set_config(options, show=True)

    def close(self) -> None:
        """Close the file, and finish the run if this logger started it."""
        self.__exit__(None, None, None)

    def __enter__(self) -> TrainingRunLogger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._owns_run:
            self.run.__exit__(kind, error, trace)
        if self._is_open:
            self._restore()
        self._is_open = False
        self._file.close()

    def _on_line(self, line: bytes) -> None:
        if not self._is_open:
            return  # the run goes on after this logger was closed
        record = decode(line)
        assert record is not None, "the run wrote a line that does not read back"
        shaped = with_iso_time(record)
        try:
            self._file.append(shaped)
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                self.run.console.notice(
                    f"cannot write {self._file.path}: {error.strerror or error}. Training goes on;"
                    " the run still has every record."
                )
        if self._callback is not None and not self.run.guard.is_disabled(_CALLBACK):
            self.run.guard.run(_CALLBACK, self._callback, encode_json(shaped).decode())


def _checked_level(verbosity: LogVerbosity | int) -> LogVerbosity:
    try:
        return LogVerbosity(verbosity)
    except ValueError:
        names = ", ".join(f"{level.name} ({level.value})" for level in LogVerbosity)
        raise UsageError(f"verbosity={verbosity!r} is not known: use {names}.") from None


def _nothing() -> None:
    """The console's level was not changed."""
