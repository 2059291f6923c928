"""``TrainingRunLogger``: a run that also keeps one JSON array file, valid after every record."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from epochal.errors import UsageError
from epochal.journal.array import ArrayFile, with_iso_time
from epochal.journal.line import decode, encode_json, now
from epochal.run.config import record_config
from epochal.run.console.messages import LogVerbosity
from epochal.run.console.printer import Console
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run, recorder_of
from epochal.run.start import init

P = ParamSpec("P")
R = TypeVar("R")

# Every step has its line, unless they come faster than anybody reads.
_LINE_EVERY_S = 0.1
_CALLBACK = "TrainingRunLogger callback"


def _of_run(
    call: Callable[Concatenate[Run, P], R],
) -> Callable[Concatenate[TrainingRunLogger, P], R]:
    """A call of the run, as a method of the logger: the line it appends comes back to the file."""

    @wraps(call)
    def forwarded(self: TrainingRunLogger, /, *args: P.args, **options: P.kwargs) -> R:
        return call(self.run, *args, **options)

    return forwarded


class TrainingRunLogger:
    """Typed logging into ``path``, into a run, and to ``callback`` as JSON lines.

    The current run is used when there is one; otherwise a run named after the file is started,
    which ``total_steps``, ``total_tokens`` and ``num_epochs`` give percent and time left.
    ``verbosity`` other than DEFAULT holds for the lines of either until ``close``.

    ``existing`` decides what happens if the file exists and is not empty: ``refuse`` raises,
    ``rotate`` renames the old file (``training.json`` becomes ``training.1.json``), ``append``
    continues it and its run. A file that cannot be opened raises here. One that cannot be written
    later is reported once, and the run goes on. A callback that raises is reported once, and is not
    called any more after the third time.

    Example:
        with epochal.TrainingRunLogger("training.json", existing="rotate") as logger:
            logger.log_step(0, 0.0, tokens=4096, duration_ms=120.0, norm=0.8, loss=2.1, lr=1e-3)
            logger.log_eval(0, 0.0, 4096, 900.0, 2.3)
    """

    def __init__(
        self,
        path: str | Path,
        callback: Callable[[str], object] | None = None,
        verbosity: LogVerbosity | int = LogVerbosity.DEFAULT,
        *,
        existing: Literal["refuse", "rotate", "append"] = "refuse",
        total_steps: int | None = None,
        total_tokens: int | None = None,
        num_epochs: float | None = None,
    ) -> None:
        level = LogVerbosity(verbosity)
        current = OPEN_RUNS.current
        totals = (total_steps, total_tokens, num_epochs)
        if current is not None and totals != (None, None, None):
            raise UsageError(
                f"total_steps, total_tokens and num_epochs belong to run {current.name!r}, which is"
                " open: give them to epochal.init()."
            )
        _make_room(Path(path), existing)
        self._file = ArrayFile(path)
        self._callback = callback
        self._is_open = True
        self.lost = 0
        self._owns_run = current is None
        self._restore: Callable[[], object] = lambda: None  # the console keeps its level
        if current is None:
            console = Console(verbosity=level, min_interval_s=_LINE_EVERY_S)
            current = init(
                name=Path(path).stem,
                console=console,
                resume="allow" if existing == "append" else None,
                total_steps=total_steps,
                total_tokens=total_tokens,
                num_epochs=num_epochs,
            )
        elif level is not LogVerbosity.DEFAULT:
            self._restore = recorder_of(current).console.set_verbosity(level)
        self.run: Run = current
        recorder_of(self.run).observe(self._on_line)

    # The calls of the run.
    log = _of_run(Run.log)
    log_step = _of_run(Run.log_step)
    log_eval = _of_run(Run.log_eval)
    log_epoch = _of_run(Run.log_epoch)
    log_moe_stats = _of_run(Run.log_moe_stats)
    log_gpu_state = _of_run(Run.log_gpu_state)
    log_gpu_model = _of_run(Run.log_gpu_model)
    log_sol_estimate = _of_run(Run.log_sol_estimate)
    log_allocator = _of_run(Run.log_allocator)
    log_dataset = _of_run(Run.log_dataset)
    log_abs_maxes = _of_run(Run.log_abs_maxes)
    log_graph = _of_run(Run.log_graph)
    event = _of_run(Run.event)
    message = _of_run(Run.message)
    section = _of_run(Run.section)
    phase = _of_run(Run.phase)
    define = _of_run(Run.define)
    write = _of_run(Run.write)

    @property
    def step(self) -> int:
        """The last training step that was logged, -1 before the first."""
        return self.run.step

    def log_cmd(self, arguments: list[str]) -> None:
        """Record the command line, without secrets.

        Args:
            arguments: The command and its arguments.
        """
        words = recorder_of(self.run).redactor.command([str(word) for word in arguments])
        self.run.write({"log": "cmd", "t": now(), "cmd": words})

    def log_options(self, options: dict[str, Any]) -> None:
        """Record options, one record each, and print them as a table.

        Args:
            options: The options by name.
        """
        recorder = recorder_of(self.run)
        recorded = record_config(recorder.config, options)
        if recorder.rank == 0:
            recorder.reporter.options(recorded)

    def close(self) -> None:
        """Close the file, and finish the run if this logger started it."""
        self.__exit__(None, None, None)

    def __enter__(self) -> TrainingRunLogger:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
        recorder = recorder_of(self.run)
        try:
            self._file.append(shaped)
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                recorder.console.notice(
                    f"cannot write {self._file.path}: {error.strerror or error}. Training goes on;"
                    " the run still has every record."
                )
        if self._callback is not None and not recorder.guard.is_disabled(_CALLBACK):
            recorder.guard.run(_CALLBACK, self._callback, encode_json(shaped).decode())


def _make_room(path: Path, existing: str) -> None:
    """Do what ``existing`` says if the file exists and is not empty."""
    if existing not in ("refuse", "rotate", "append"):
        raise UsageError(f"existing={existing!r} is not known: use refuse, rotate or append.")
    if existing == "append" or not path.exists() or path.stat().st_size == 0:
        return
    if existing == "refuse":
        raise UsageError(
            f"{path} exists. Pass existing='append' to continue it, existing='rotate' to rename the"
            " old file and start a new one, or choose another path (existing='refuse', the default,"
            " raises)."
        )
    numbers = itertools.count(1)
    free = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in numbers)
    path.rename(next(old for old in free if not old.exists()))
