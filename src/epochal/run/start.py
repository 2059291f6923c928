"""Starts runs: the order of things in :func:`init` is the order in which they happen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from epochal.console.printer import Console
from epochal.console.verbosity import LogVerbosity, Verbosity
from epochal.run import opening, request
from epochal.run.capture import Capture
from epochal.run.companion import start_companion
from epochal.run.current import CURRENT
from epochal.run.death import DeathWatch
from epochal.run.findings_shown import FindingsShown
from epochal.run.pace import Totals
from epochal.run.run import Run
from epochal.settings import (
    Announcement,
    announce_launched,
    announce_run,
    read_launch,
    read_settings,
    withdraw_run,
)

Resume = Literal["never", "allow", "must", "latest"]


def init(
    project: str | None = None,
    name: str | None = None,
    *,
    dir: str | Path | None = None,  # noqa: A002 (what users of other trackers write)
    config: Mapping[str, Any] | Any = None,
    config_file: str | Path | None = None,
    tags: Iterable[str] = (),
    notes: str | None = None,
    resume: Resume | bool | None = None,
    resume_step: int | None = None,
    capture: bool = False,
    total_steps: int | None = None,
    total_tokens: int | None = None,
    num_epochs: float | None = None,
    console: bool | Console | None = None,
    verbosity: Verbosity | LogVerbosity | int | str | None = None,
    line_every_s: float = 0.25,
    companion: bool | None = None,
    finish_wait_s: float = 5.0,
    alerts: str | Iterable[str] | None = None,
    alert_on: str | None = None,
    report_to: str | Iterable[str] | None = None,
    **reporting: Any,
) -> Run:
    """Start a run and make it the current one.

    ``resume``: "never" makes a new run whatever the name (a taken one gets a number), "allow" goes
    on with the run of that name if there is one, "must" insists, "latest" goes on with the newest
    run of the project. ``resume_step`` is the first step that will be logged again; without it the
    first logged step is. ``total_*`` and ``num_epochs`` give percent and time left.
    ``line_every_s`` bounds how often step lines are printed, 0 prints all; the newest one stands
    before whatever else is printed, and at the end. ``companion`` switches the process
    beside the run; ``finish_wait_s`` bounds how long ``finish()`` waits for what it forwards.
    ``alerts`` are addresses of people to tell about findings (from ``alert_on`` on: "info",
    "warning", "error") and about the end: "desktop", or those of the apprise package.
    ``report_to`` names the trackers it forwards to (json_log, plain_log, tensorboard, wandb, aim,
    mlflow, trackio), with options such as ``wandb_project=`` or ``log_file=``; all may stand in
    ``config_file`` as well.

    Raises for arguments that cannot be accepted and when the folder cannot be made; nothing later
    raises for what the outside world does.
    """
    settings = read_settings()
    launch = read_launch()
    request.check_wait(finish_wait_s)
    told = request.checked_alerts(alerts, alert_on, settings)
    joined = opening.join_parent(console)
    if joined is not None:
        return joined
    if report_to is not None:
        reporting["report_to"] = report_to
    entries = request.file_entries(config_file)
    said = entries.pop("verbosity", None)
    asked = request.checked_request(
        settings,
        project=project,
        name=name,
        folder=dir,
        config=config,
        entries=entries,
        reporting=reporting,
        tags=tags,
        notes=notes,
        resume=resume,
        resume_step=resume_step,
        totals=Totals(steps=total_steps, tokens=total_tokens, epochs=num_epochs),
        console=request.checked_console(
            console,
            settings,
            launch,
            verbosity=said if verbosity is None else verbosity,
            line_every_s=line_every_s,
        ),
    )
    _replace_current()
    if not settings.enabled:
        run = opening.switched_off(asked)
    elif launch.rank == 0:
        run = opening.start_rank_zero(asked, launch, settings)
    else:
        run = opening.start_other_rank(asked, launch)
    _make_current(run, capture=capture)
    if run.is_recorded and (settings.companion if companion is None else companion):
        addresses, level = told
        start_companion(
            run,
            launch,
            grace_s=settings.grace_s,
            wait_s=finish_wait_s,
            alerts=addresses,
            alert_on=level,
        )
        FindingsShown(run).begin()
    return run


def _announce(run: Run, *, capture: bool) -> None:
    if run.rank != 0:
        return
    try:
        announce_launched(Announcement(str(run.dir), run.attempt, captures=capture))
    except OSError as error:
        run.console.notice(f"whoever started this program cannot be told of the run: {error}")


def _replace_current() -> None:
    previous = CURRENT.run
    if previous is None or previous.finished or not previous.is_of_this_process:
        return
    previous.console.notice(
        f"a new run was started before {previous.name!r} was finished; it is finished now."
    )
    previous.finish()


def _make_current(run: Run, *, capture: bool) -> None:
    CURRENT.run = run
    if run.is_recorded:
        pid = os.getpid()
        announce_run(pid=pid, folder=str(run.dir), attempt=run.attempt)
        run.on_finish(lambda: withdraw_run(pid=pid))
        _announce(run, capture=capture)
    run.on_finish(DeathWatch(run).release)
    if capture:
        run.on_finish(Capture(run.keep_output).stop)
