"""Starts runs: :func:`init`, step by step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from epochal.console.capture import Capture
from epochal.console.cell import Cell, calling_cell
from epochal.run.companion import start_companion
from epochal.run.current import OPEN_RUNS
from epochal.run.exit_hooks import EXIT_HOOKS
from epochal.run.opening import join_parent, open_run
from epochal.run.request import Request, checked_request
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings
from epochal.settings.launch import Announcement, announce_launched

Resume = Literal["never", "allow", "must", "latest"]


def init(
    project: str | None = None,
    name: str | None = None,
    *,
    config: Mapping[str, Any] | str | os.PathLike[str] | Any = None,
    dir: str | os.PathLike[str] | None = None,  # noqa: A002 (what users of other trackers write)
    id: str | None = None,  # noqa: A002
    tags: str | Iterable[str] = (),
    notes: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    resume: Resume | bool | None = None,
    resume_step: int | None = None,
    fork_from: str | None = None,
    total_steps: int | None = None,
    total_tokens: int | None = None,
    num_epochs: float | None = None,
    report_to: str | Iterable[str] | None = None,
    alerts: str | Iterable[str] | None = None,
    rules: str | Iterable[str | Mapping[str, Any]] = (),
    **settings: Any,
) -> Run:
    """Start a run and return it.

    The run is the current one until it finishes: ``epochal.log`` and ``epochal.finish`` use it.
    Runs that are open already stay open, and each of them logs through its own handle::

        with epochal.init("mnist", config={"lr": 0.1}, total_steps=1000) as run:
            for step in range(1000):
                run.log({"loss": train(step)}, step=step)

    What you do not pass comes from environment variables, from the ``epochal.toml`` of the project,
    from that of the user, or from the defaults, in this order. ``epochal config`` prints the
    values and where they come from.

    Args:
        project: The project that the run belongs to.
        name: The name of the run, by default the date and time. If it exists, a number is added.
        config: The hyperparameters: a mapping, a dataclass, a namespace, or the path of a YAML
            file. Such a file may also contain ``verbosity``, ``report_to`` and options of sinks.
        dir: The folder that contains the projects, by default ``runs``.
        id: The id of a new run. With ``resume``, the id of the run to continue.
        tags: Tags of the run, in addition to those of the settings.
        notes: A text that describes the run.
        group: The group of runs that the run belongs to, such as a sweep.
        job_type: What the run does in its group, such as "train" or "eval".
        resume: "never" starts a new run. "allow" continues the run of this name if there is one,
            "must" raises an error if there is none, and "latest" continues the newest run of the
            project. True means "allow".
        resume_step: The first step that you will log again, by default the first step you log.
        fork_from: ``"RUN?step=N"`` starts with a copy of another run's history up to a step, by
            default its last one. RUN is an id, a name, ``project/name`` or a folder.
        total_steps: How many steps you plan; gives percent and time left.
        total_tokens: How many tokens you plan; gives percent and time left.
        num_epochs: How many epochs you plan; gives percent and time left.
        report_to: The sinks that receive the run, such as "tensorboard" or ["wandb", "aim"].
        alerts: Addresses that receive findings and the end of the run: "desktop", or addresses of
            the apprise package such as "json://host/path".
        rules: Conditions that give a finding when they are met, such as
            ``"eval/loss > 3 for 5 points"``, or mappings with ``when``, ``severity`` and
            ``message``.
        **settings: Any setting of a run, such as ``companion=False`` or ``capture=True``, and any
            option of a sink, such as ``wandb_project="mnist"``.

    Raises:
        UsageError: An argument or a setting is not valid. The message names it.
        RunNotFoundError: There is no run to continue or to fork.
        OSError: The folder of the run cannot be created. After that, faults of the outside world,
            such as a full disk, do not raise an error.
    """
    arguments = locals()
    request = checked_request({**arguments.pop("settings"), **arguments})
    joined = join_parent(request) if request.settings.enabled else None
    if joined is not None:
        recorder_of(joined).values.strict = request.settings.strict
        if joined not in OPEN_RUNS:
            OPEN_RUNS.add(joined)
        return joined
    if (cell := calling_cell()) is not None:
        _finish_rerun(cell)
    return _start(request, cell)


def init_in(folder: Path, *, resume_step: int | None = None, **options: Any) -> Run:
    """Start a run in exactly this folder, or append an attempt to the run that is there.

    Nothing of older attempts is hidden, but for steps from ``resume_step`` on. Only notices are
    printed. The run becomes the current one only while no other is open.
    """
    parent = folder.parent
    is_root = parent == Path(read_settings().dir).expanduser().absolute()
    names = {"project": None if is_root else parent.name or None, "name": folder.name or None}
    fixed = {"dir": parent, "console": False, "resume": "allow", "resume_step": resume_step}
    request = checked_request({**fixed, **names, **options}, folder)
    run = _start(request)
    recorder = recorder_of(run)
    if resume_step is None:
        recorder.end_resuming()
    if not request.reporting.report_to:
        # Whoever closes a writer does not wait for findings: the page and `doctor` have them.
        recorder.ending.wait_s = 0.0
    return run


def _start(request: Request, cell: Cell | None = None) -> Run:
    """Open the requested run, and start its hooks, capture and companion."""
    run, settings = open_run(request), request.settings
    recorder = recorder_of(run)
    recorder.cell, recorder.settings = cell, settings
    recorder.values.strict = settings.strict
    recorder.samples.budget_bytes = int(settings.samples_gb * 1e9)
    ending = recorder.ending
    ending.wait_s = settings.finish_wait_s
    OPEN_RUNS.add(run, is_current=request.folder is None)
    EXIT_HOOKS.add(ending)
    if recorder.is_recorded and recorder.rank == 0:
        folder, captures = str(recorder.folder.path), settings.capture
        announced = Announcement(folder, recorder.attempt, captures=captures)
        recorder.guard.run("launch file", announce_launched, announced)
    if settings.capture:
        keep = recorder.guard.wrap("captured output", recorder.keep_output)
        ending.on_end.add(Capture(keep).stop)
    if recorder.is_recorded and settings.companion:
        start_companion(recorder, request.launch, settings=settings)
    return run


def _finish_rerun(cell: Cell) -> None:
    """Finish the run that an earlier execution of the same notebook cell opened."""
    for run in OPEN_RUNS:
        recorder = recorder_of(run)
        if recorder.is_of_this_process and cell.is_rerun_of(recorder.cell):
            recorder.console.notice(
                f"run {run.name!r} is finished: its notebook cell is run again."
            )
            run.finish(reason="its notebook cell was run again")
