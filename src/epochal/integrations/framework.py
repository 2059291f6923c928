"""What the integrations of frameworks share: the package, the run, and where faults end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from epochal.base.guard import Guard, guarded
from epochal.errors import EpochalError, MissingPackageError
from epochal.journal.layout import is_run_folder
from epochal.journal.line import now
from epochal.records.values import plain_json
from epochal.run.current import OPEN_RUNS, guard_of
from epochal.run.run import Run, recorder_of
from epochal.run.start import init

Method = TypeVar("Method", bound=Callable[..., Any])


def require(package: str, what: str) -> None:
    """Import a framework for ``what``; a missing one raises a sentence with the pip line."""
    try:
        import_module(package)
    except ModuleNotFoundError as missing:
        raise MissingPackageError(what, missing) from missing


def callback(method: Method) -> Method:
    """Decorate what a framework calls: a fault is recorded, and the training goes on.

    Wrong use still raises its own sentence. A callback does not rest after faults: the one that
    ends a run must be called.
    """
    member = f"integration {method.__module__.rpartition('.')[2]}"
    guard = guarded(member, _guard_of_owner, expected=(EpochalError,), rests=False)
    return guard(method)  # type: ignore[return-value]


def _guard_of_owner(owner: Any) -> Guard:
    training = getattr(owner, "_training", None)
    known = (getattr(owner, "run", None), getattr(owner, "_run", None))
    return guard_of(next(filter(None, known), None) or getattr(training, "run", None))


def open_run(options: Mapping[str, Any], **defaults: Any) -> Run:
    """Start a run with the user's options over the framework's defaults; None is not given.

    A framework has its own progress bar, so only notices are printed unless an option says more.
    """
    asked = {"console": False, **defaults, **options}
    config = asked.get("config")
    if isinstance(config, Mapping) and isinstance(defaults.get("config"), Mapping):
        asked["config"] = {**defaults["config"], **config}
    return init(**{name: value for name, value in asked.items() if value is not None})


def reopen_run(run: Run, options: Mapping[str, Any]) -> Run:
    """Append an attempt to a run of this process that has finished; nothing of it is hidden."""
    again = open_run({**options, **(options_to_resume(place_of(run)) or {})})
    recorder_of(again).end_resuming()
    return again


def current_run() -> Run | None:
    """The run that the program opened itself and that takes records, if there is one."""
    run = OPEN_RUNS.current
    if run is None or run.state == "finished" or not recorder_of(run).is_of_this_process:
        return None
    return run


def place_of(run: Run) -> dict[str, str]:
    """Where a run is and what it is called, to be kept in a checkpoint."""
    return {"id": run.id, "dir": str(run.dir), "project": run.project, "name": run.name}


def options_to_resume(place: Any) -> dict[str, Any] | None:
    """Arguments of ``init`` that continue the run of :func:`place_of`; None if it is gone."""
    if not isinstance(place, dict) or not {"dir", "project", "name"} <= set(place):
        return None
    folder = Path(str(place["dir"]))
    if not is_run_folder(folder):
        return None
    return {
        "dir": folder.parent.parent,
        "project": str(place["project"]),
        "name": str(place["name"]),
        "resume": "must",
    }


def write_checkpoint(
    run: Run, step: int, path: str | os.PathLike[str], *, kind: str, **facts: Any
) -> None:
    """Record that a framework has saved a checkpoint; facts that are None are left out."""
    known = {name: value for name, value in facts.items() if value is not None}
    record = {"log": "event", "t": now(), "name": "checkpoint", "step": step, "kind": kind}
    run.write({**record, "path": os.path.abspath(path), **plain_json(known)})


def log_samples(run: Run, samples: Mapping[str, Any], step: int | None) -> None:
    """Record pictures, tables and the like; without a step at the last one that was logged."""
    run.log(samples, recorder_of(run).sample_step(step))


class TrainingRun:
    """The run of a callback: the one it was given, the one that is open, or one of its own.

    A run of its own begins and ends with the training. Other runs stay open, and their owner
    finishes them. ``says_end`` is False for a framework that does not call at the end of a
    training; of the others a training without an end has failed.
    """

    def __init__(
        self, run: Run | None, options: Mapping[str, Any], *, says_end: bool = True
    ) -> None:
        self._says_end = says_end
        self._given = run
        self._options = options
        self._own: Run | None = None
        self.run = run

    def begin(self, config: Mapping[str, Any] | None = None, **defaults: Any) -> Run:
        """The run of a training that begins; an own one of a training before is finished."""
        if self._says_end:
            self.end("failed", reason="the training ended with an exception")
        else:
            self.end()
        self.run = self._given or current_run()
        if self.run is None:
            self.run = self._own = open_run(self._options, config=config, **defaults)
        elif config:
            self.run.config.update({**config, **(self._options.get("config") or {})})
        return self.run

    def opened(self, **defaults: Any) -> Run:
        """The run for values outside a training: the last one, which is continued if it ended."""
        if self.run is None:
            return self.begin(**defaults)
        if self.run.state == "finished" and self.run is self._own:
            self.run = self._own = reopen_run(self.run, self._options)
        return self.run

    def end(self, status: str = "finished", *, reason: str | None = None) -> None:
        """Finish an own run; the others go on."""
        if self._own is not None and self._own.state != "finished":
            self._own.finish(status, reason=reason)
