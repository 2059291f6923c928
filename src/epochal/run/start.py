"""Starts runs: :func:`init`, step by step."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from epochal.console.messages import LogVerbosity, Verbosity
from epochal.console.printer import Console
from epochal.redact import checked_redactor
from epochal.run import opening, request
from epochal.run.capture import Capture
from epochal.run.companion import start_companion
from epochal.run.current import OPEN_RUNS
from epochal.run.exit_hooks import EXIT_HOOKS
from epochal.run.progress_estimator import Totals
from epochal.run.recorder import Recorder
from epochal.run.run import Run, recorder_of
from epochal.settings import Settings, read_settings
from epochal.settings.launch import Announcement, Launch, announce_launched, read_launch

if TYPE_CHECKING:
    from epochal.run.notebook import Cell

Resume = Literal["never", "allow", "must", "latest"]
Reinit = Literal["create_new", "finish_previous"]


def init(
    project: str | None = None,
    name: str | None = None,
    *,
    dir: str | Path | None = None,  # noqa: A002 (what users of other trackers write)
    id: str | None = None,  # noqa: A002
    config: Mapping[str, Any] | Any = None,
    config_file: str | Path | None = None,
    tags: Iterable[str] = (),
    notes: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    owner: str | None = None,
    fork_from: str | None = None,
    resume: Resume | bool | None = None,
    resume_step: int | None = None,
    reinit: Reinit = "create_new",
    capture: bool | None = None,
    total_steps: int | None = None,
    total_tokens: int | None = None,
    num_epochs: float | None = None,
    console: bool | Console | None = None,
    verbosity: Verbosity | LogVerbosity | int | str | None = None,
    line_every_s: float | None = None,
    companion: bool | None = None,
    finish_wait_s: float | None = None,
    alerts: str | Iterable[str] | None = None,
    alert_on: str | None = None,
    hub: str | None = None,
    redact: bool | str | Iterable[str] | None = None,
    report_to: str | Iterable[str] | None = None,
    strict: bool | None = None,
    **reporting: Any,
) -> Run:
    """Start a run and make it the current one, beside those that are open already.

    A run logs through its own handle; ``epochal.log`` uses the run opened last. ``reinit``:
    "finish_previous" finishes every open run of this process first. Running a notebook cell again
    finishes the run that the cell opened before.

    ``resume``: "never" makes a new run; a name that is taken gets a number. "allow" resumes the run
    of that name if there is one, "must" raises if there is none. "latest" resumes the newest run of
    the project. With ``id``, which is the id of a new run, they mean the run of the project that
    has this id. ``resume_step`` is the first step that will be logged again, by default the first
    step logged. ``total_*`` and ``num_epochs`` give percent and time left.

    ``line_every_s`` is the least time between two step lines; 0 prints all. The newest line is
    always printed before other output and at the end. ``companion`` switches the companion
    process. ``finish_wait_s`` is how long ``finish()`` waits at most for records being forwarded.

    ``alerts`` are addresses that get findings (from the severity ``alert_on``: "info", "warning",
    "error") and the end of the run: "desktop", or addresses of the apprise package. ``redact``
    names what else is redacted in configuration and command besides passwords, tokens and keys
    (names or regular expressions); False redacts nothing. ``report_to`` names the sinks to
    forward to, such as "tensorboard" or "wandb", with options such as ``wandb_project=`` or
    ``log_file=``; ``config_file`` may hold them as well, and the guide on trackers lists them.
    ``hub`` is the address of a hub that receives the run as it is written; its token comes from
    ``EPOCHAL_HUB_TOKEN``. ``strict`` makes calls raise for values that cannot be recorded; it is
    meant for tests.

    ``group`` names runs that belong together, ``job_type`` what this one does among them. ``owner``
    is whose run it is, by default the user of the operating system. Lists show and queries find
    all three.

    ``fork_from="RUN?step=N"`` makes a new run that begins with a copy of another's history up to
    that step (by default its last), and goes on with the next. It has the other's configuration,
    with ``config`` over it. RUN is an id, a name, ``project/name`` or a folder.

    Arguments that are not given come from the environment, the ``epochal.toml`` of the project,
    that of the user, and the defaults, in this order; ``epochal config show`` prints them.

    Raises for invalid arguments and when the folder cannot be made. Later faults of the outside
    world, such as a full disk, raise nothing.
    """
    settings = read_settings()
    launch = read_launch()
    finish_wait_s = settings.finish_wait_s if finish_wait_s is None else finish_wait_s
    capture = settings.capture if capture is None else capture
    request.check_wait(finish_wait_s)
    request.check_reinit(reinit)
    request.check_options(reporting, ("project", "name", *(init.__kwdefaults__ or ())))
    told = request.checked_alerts(alerts, alert_on, settings)
    hub = request.checked_hub(settings.hub if hub is None else hub)
    redactor = checked_redactor(redact, settings.redact)
    joined = opening.join_parent(console, redactor)
    if joined is not None:
        recorder_of(joined).values.strict = settings.strict if strict is None else strict
        return joined if joined in OPEN_RUNS else _open(joined)
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
        group=group,
        job_type=job_type,
        owner=owner,
        fork_from=fork_from,
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
        redactor=redactor,
        run_id=id,
    )
    cell = _calling_cell()
    _finish_previous(cell, every=reinit == "finish_previous")
    if not settings.enabled:
        run = opening.switched_off(asked)
    elif launch.rank == 0:
        run = opening.start_rank_zero(asked, launch, settings)
    else:
        run = opening.start_other_rank(asked, launch)
    recorder = recorder_of(run)
    recorder.values.strict = settings.strict if strict is None else strict
    addresses, level = told
    settings = replace(settings, alerts=tuple(addresses), alert_on=level, hub=hub)
    recorder.cell, recorder.ending.wait_s, recorder.settings = cell, finish_wait_s, settings
    return _begin(
        run,
        launch,
        settings,
        capture=capture,
        companion=settings.companion if companion is None else companion,
    )


def init_off(
    project: str | None = None, name: str | None = None, *, config: Mapping[str, Any] | Any = None
) -> Run:
    """Start a run that checks its arguments and writes nothing, whatever the settings say."""
    settings = read_settings()
    asked = request.checked_request(
        settings,
        project=project,
        name=name,
        config=config,
        resume=False,
        console=request.checked_console(
            False, settings, read_launch(), verbosity=None, line_every_s=None
        ),
        redactor=checked_redactor(None, settings.redact),
    )
    run = opening.switched_off(asked)
    recorder_of(run).settings = settings
    return _open(run)


def init_in(
    folder: Path,
    *,
    resume_step: int | None = None,
    companion: bool | None = None,
    report_to: str | Iterable[str] | None = None,
) -> Run:
    """Start a run in exactly this folder, or append an attempt to the run that is there.

    Nothing of older attempts is hidden, but for steps from ``resume_step`` on. Everything else
    comes from the settings; nothing but notices is printed. The run becomes the current one only
    while no other is open.
    """
    settings, launch = read_settings(), read_launch()
    asked = request.checked_request(
        settings,
        project=_project_of(folder, settings),
        name=folder.name or None,
        folder=folder.parent,
        resume="allow",
        resume_step=resume_step,
        reporting=None if report_to is None else {"report_to": report_to},
        console=request.checked_console(False, settings, launch, verbosity=None, line_every_s=None),
        redactor=checked_redactor(None, settings.redact),
    )
    asked = msgspec.structs.replace(asked, run_folder=folder)
    if not settings.enabled:
        run = opening.switched_off(asked)
    else:
        joined = opening.join_rank_zero(asked, launch)
        run = joined or opening.start_rank_zero(asked, launch, settings)
    recorder = recorder_of(run)
    if resume_step is None:
        recorder.end_resuming()
    recorder.values.strict, recorder.settings = settings.strict, settings
    # Whoever closes a writer does not wait for findings: the page and `doctor` have them.
    recorder.ending.wait_s = settings.finish_wait_s if asked.reporting.report_to else 0.0
    return _begin(
        run,
        launch,
        settings,
        capture=settings.capture,
        companion=settings.companion if companion is None else companion,
        is_current=False,
    )


def _begin(
    run: Run,
    launch: Launch,
    settings: Settings,
    *,
    capture: bool,
    companion: bool,
    is_current: bool = True,
) -> Run:
    """Add a run to the open runs, and start its hooks, capture and companion."""
    _open(run, is_current=is_current)
    recorder = recorder_of(run)
    ending = recorder.ending
    EXIT_HOOKS.add(ending)
    ending.on_close.add(lambda: EXIT_HOOKS.remove(ending))
    if recorder.is_recorded:
        _announce(recorder, capture=capture)
    if capture:
        keep = recorder.guard.wrap("captured output", recorder.keep_output)
        ending.on_end.add(Capture(keep).stop)
    if recorder.is_recorded and companion:
        start_companion(recorder, launch, settings=settings)
    return run


def _project_of(folder: Path, settings: Settings) -> str | None:
    """Return the name of the parent folder, unless that is the folder of projects."""
    above = folder.parent
    is_root = above == Path(settings.dir).expanduser().absolute()
    return None if is_root else above.name or None


def _announce(recorder: Recorder, *, capture: bool) -> None:
    if recorder.rank != 0:
        return
    folder = str(recorder.folder.path)
    try:
        announce_launched(Announcement(folder, recorder.attempt, captures=capture))
    except OSError as error:
        recorder.console.notice(f"whoever started this program cannot be told of the run: {error}")


def _calling_cell() -> Cell | None:
    """The cell of a notebook whose execution this is; None elsewhere."""
    if "IPython" not in sys.modules:
        return None
    from epochal.run.notebook import calling_cell  # which loads what shows pages

    return calling_cell()


def _finish_previous(cell: Cell | None, *, every: bool) -> None:
    for run in OPEN_RUNS:
        recorder = recorder_of(run)
        if not recorder.is_of_this_process:
            continue
        if cell is not None and cell.is_rerun_of(recorder.cell):
            recorder.console.notice(
                f"run {run.name!r} is finished: its notebook cell is run again."
            )
            run.finish(reason="its notebook cell was run again")
        elif every:
            run.finish()


def _open(run: Run, *, is_current: bool = True) -> Run:
    OPEN_RUNS.add(run, is_current=is_current)
    recorder_of(run).ending.on_close.add(lambda: OPEN_RUNS.remove(run))
    return run
