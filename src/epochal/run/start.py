"""Starts a run, from top to bottom: settings, identity and folder, writer, run, companion.

1. :func:`init` completes its arguments from the settings, and checks them (``request.py``).
2. A place is found: who the run is, its folder and its attempt. Rank 0 makes a folder or takes that
   of an earlier run (``resume.py``), and writes ``run.json``. The other ranks find that folder. A
   process of ``multiprocessing`` records beside its parent.
3. The place is opened: a file of this process in the journal, and the run that writes it.
4. Rank 0 publishes the folder to the other ranks, and prints where the run is recorded.
5. The hooks at the end of the process, captured output and the companion start (``ending.py``,
   ``companion.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from epochal.base.torch_hooks import torch_hooks
from epochal.errors import UsageError
from epochal.exchange.sinks.unsent import SINKS_FILE
from epochal.journal import ranks
from epochal.journal.blobs import store_blob
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    claim,
    free_names,
    rank_of_writer,
    rank_writer,
    read_json,
    slugify,
    staged_folder,
    write_json,
    write_new_json,
)
from epochal.journal.line import now
from epochal.journal.process import liveness, part_header, process_identity
from epochal.journal.ranks import RankRendezvous
from epochal.journal.writer import JournalWriter
from epochal.records import FORMAT_VERSION
from epochal.records.format import format_reached
from epochal.run import provenance
from epochal.run.companion import start_companion
from epochal.run.console.capture import Capture
from epochal.run.console.cell import Cell, calling_cell, kernel_shell
from epochal.run.console.messages import Verbosity
from epochal.run.console.printer import Console
from epochal.run.console_reporter import Totals
from epochal.run.current import OPEN_RUNS
from epochal.run.ending import EXIT_HOOKS
from epochal.run.recorder import Recorder
from epochal.run.request import Request, checked_request
from epochal.run.resume import (
    find_parent,
    find_resumable,
    last_epoch_of,
    last_step_of,
    resumed_identity,
)
from epochal.run.run import Run, recorder_of
from epochal.settings import LABELS, read_settings
from epochal.settings.launch import Announcement, Launch, announce_launched, read_parent_run
from epochal.settings.toml_file import shown_path

Resume = Literal["never", "allow", "must", "latest"]

# So much is folded in a tenth of a second: a program that ends is held up no longer.
_SUMMARISED_BYTES = 2 * 1024 * 1024
# How many runs this process has opened as a rank of each launch.
_num_opened: Counter[Launch] = Counter()


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
        name: The name of the run, by default the ``id`` that you give, else the date and time. If
            the name exists, a number is added.
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
            project. True means "allow". If another process still writes the run, this one gets an
            attempt of its own, which hides the same and later steps of the other.
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
    if (joined := _join_parent(request)) is not None:
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


def _start_fork(run: Run, name: str | None, step: int | None, arguments: Mapping[str, Any]) -> Run:
    """Start a fork of an open run, in its folder of runs unless ``arguments`` say otherwise."""
    recorder = recorder_of(run)
    recorder.check_open()
    recorder.flush_values()
    at = "" if step is None else f"?step={int(step)}"
    given = {"project": run.project, "dir": run.dir.parent.parent, **arguments}
    source = f"{run.dir}{at}" if recorder.is_recorded else None
    return init(name=name or f"{run.name}-fork", fork_from=source, **given)


def _start(request: Request, cell: Cell | None = None) -> Run:
    """Start the requested run: its place, its writer, its hooks and its companion."""
    if request.launch.world_size > 1 and request.folder is None:
        request = _numbered(request)
    place = _find_place(request)
    run, settings = _open(request, place), request.settings
    recorder = recorder_of(run)
    if place.is_pending:
        _move_at_end(recorder, request)
    elif place.writer == LOOP and recorder.is_recorded:
        _announce(recorder, request, place.meeting.last_step)
    recorder.cell, recorder.settings = cell, settings
    recorder.samples.budget_bytes = int(settings.samples_gb * 1e9)
    recorder.ending.wait_s = settings.finish_wait_s
    OPEN_RUNS.add(run, is_current=request.folder is None)
    EXIT_HOOKS.add(recorder.ending)
    if recorder.is_recorded and recorder.rank == 0:
        folder, captures = str(recorder.folder.path), settings.capture
        announced = Announcement(folder, recorder.attempt, captures=captures)
        recorder.guard.run("launch file", announce_launched, announced)
    if settings.capture:
        keep = recorder.guard.wrap("captured output", recorder.keep_output)
        recorder.ending.on_end.add(Capture(keep).stop)
    if settings.facts and recorder.is_recorded and recorder.rank == 0 and "torch" in sys.modules:
        recorder.guard.run("facts", lambda: torch_hooks().start_facts(run))
    if recorder.is_recorded and settings.companion:
        start_companion(recorder, request.launch, settings=settings)
    elif recorder.is_recorded and recorder.rank == 0:
        recorder.ending.on_close.add(lambda: _summarise(recorder.folder))
    return run


def _summarise(folder: RunFolder) -> None:
    """Write what a companion would have written; with more, the next pack or reader does it."""
    from epochal.journal.summaries import fold_and_write  # which most runs have no use for

    fold_and_write(folder, most_bytes=_SUMMARISED_BYTES)


def _numbered(request: Request) -> Request:
    """Give the second run of a launch, and every later one, a launch id of its own.

    Ranks open their runs in the same order, but one may be slow: by the time it looks for the
    first run, rank 0 may have opened the second.
    """
    launch = request.launch
    _num_opened[launch] += 1
    number = _num_opened[launch]
    launch_id = request.launch_id if number == 1 else f"{request.launch_id}.{number}"
    return msgspec.structs.replace(
        request, launch=msgspec.structs.replace(launch, launch_id=launch_id)
    )


def _finish_rerun(cell: Cell) -> None:
    """Finish the run that an earlier execution of the same notebook cell opened."""
    for run in OPEN_RUNS:
        recorder = recorder_of(run)
        if recorder.is_of_this_process and cell.is_rerun_of(recorder.cell):
            recorder.console.notice(
                f"run {run.name!r} is finished: its notebook cell is run again."
            )
            run.finish(reason="its notebook cell was run again")


def _join_parent(request: Request) -> Run | None:
    """In a process started by ``multiprocessing``: the parent's run, in a file of its own."""
    if not request.settings.enabled:
        return None
    run = OPEN_RUNS.current
    # In a forked process the writer has already turned to a file of its own.
    if run is None or recorder_of(run).is_of_this_process:
        if multiprocessing.parent_process() is None:
            return None
        parent = read_parent_run()
        if parent is None or not Path(parent.folder).is_dir():
            return None
        folder, silent = RunFolder(Path(parent.folder)), Console(verbosity=Verbosity.QUIET)
        meeting = RankRendezvous(folder, parent.attempt)
        place = _Place(read_json(folder.identity), meeting, f"child-{os.getpid()}")
        run = _open(msgspec.structs.replace(request, console=silent, totals=Totals()), place)
        OPEN_RUNS.add(run)
    recorder_of(run).values.strict = request.settings.strict
    return run


# -- identity and folder ---------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """Where this process records: who the run is, its folder and attempt, and the own writer."""

    identity: dict[str, Any]
    meeting: RankRendezvous
    writer: str = LOOP
    is_pending: bool = False


def _find_place(request: Request) -> _Place:
    """Make or find the folder of the run as rank 0, or find it as another rank."""
    rank, folder = request.launch.rank, request.folder
    if not request.settings.enabled:
        nowhere = RankRendezvous(RunFolder(Path(os.devnull)), 1)
        return _Place({**_labels(request), "id": "off"}, nowhere)
    if rank == 0:
        return _place_of_rank_zero(request)
    if folder is None:
        meeting = ranks.find(request.root, request.launch_id)
    else:
        meeting = _opened_by_rank_zero(RunFolder(folder), request.launch.launch_id)
    if meeting is not None:
        return _Place(read_json(meeting.folder.identity), meeting, rank_writer(rank))
    return _pending_place(request) if folder is None else _place_of_rank_zero(request)


def _labels(request: Request) -> dict[str, Any]:
    settings = request.settings
    owner = settings.owner or provenance.user_name()
    own = {"name": request.name, "owner": owner, "config": request.config}
    return {**{label: getattr(settings, label) for label in LABELS}, **own}


def _place_of_rank_zero(request: Request) -> _Place:
    """Take the folder of an earlier run or make a new one, and write ``run.json``."""
    place = None
    while place is None:
        folder = find_resumable(request)
        place = _begin(request) if folder is None else _resume(folder, request)
    folder = place.meeting.folder
    folder.journal.mkdir(exist_ok=True)
    if (reporting := request.reporting).report_to:
        path = folder.path / SINKS_FILE
        kept = read_json(path) if path.exists() else {}
        kept.update(report_to=list(reporting.report_to), options=dict(reporting.given))
        write_json(path, kept)
    return place


def _resume(folder: RunFolder, request: Request) -> _Place:
    identity, attempt = resumed_identity(folder, request)
    patch = _add_circumstances(identity, request)
    _store_patch(folder, identity, patch)
    write_json(folder.identity, request.redactor.identity(identity))
    last_step = last_step_of(folder, identity, before_attempt=attempt)
    return _Place(identity, RankRendezvous(folder, attempt, last_step))


def _begin(request: Request) -> _Place | None:
    """Make a new run; None if another process has just begun the one that the request resumes.

    The folder of a run appears complete, so whoever meets it can resume it.
    """
    labels, parent = _labels(request), None
    if request.fork_from is not None:
        parent = find_parent(request.fork_from, root=request.root, project=labels["project"])
        labels["config"] = {**parent.config, **request.config}
    identity = {
        "v": FORMAT_VERSION,
        "id": request.id or secrets.token_hex(6),
        "created": now(),
        **labels,
        "totals": request.totals.as_record(),
    }
    if parent is not None:
        identity["fork"] = parent.record()
    patch = _add_circumstances(identity, request)

    def fill(folder: RunFolder) -> None:
        if parent is not None:
            parent.copy_history(folder, request.redactor.identity(identity))
        _store_patch(folder, identity, patch)

    folder = _new_folder(request, identity, fill)
    if folder is None:
        return None
    if identity["name"] != request.name and request.settings.name is not None:
        request.console.notice(
            f"a run named {request.name!r} exists already, so this one is {identity['name']!r}"
            " (resume='allow' would continue the existing one)."
        )
    last_step = last_step_of(folder, identity, before_attempt=1)
    return _Place(identity, RankRendezvous(folder, 1, last_step))


def _new_folder(
    request: Request, identity: dict[str, Any], fill: Callable[[RunFolder], None]
) -> RunFolder | None:
    """Fill a folder with what a run begins with, and give it the first name that is free."""
    if request.folder is not None:
        folder = RunFolder(request.folder)
        folder.path.mkdir(parents=True, exist_ok=True)
        fill(folder)
        is_new = write_new_json(folder.identity, request.redactor.identity(identity))
        return folder if is_new else None
    project = request.root / slugify(request.settings.project)
    for target, name in free_names(project, request.name):
        if name != request.name and find_resumable(request) is not None:
            return None
        identity["name"] = name
        with staged_folder(project) as staged:
            fill(staged)
            write_json(staged.identity, request.redactor.identity(identity))
            if claim(staged, target):
                return RunFolder(target)
    raise UsageError(f"no free folder for a run named {request.name!r} in {project}.")


def _add_circumstances(identity: dict[str, Any], request: Request) -> bytes:
    """Add what this attempt runs on; return the changes of its code that are not committed."""
    launch, patch = request.launch, b""
    identity.update(world_size=launch.world_size, launch_id=launch.launch_id, **process_identity())
    identity.update(provenance.describe_process(), packages=provenance.describe_packages())
    if request.settings.git:
        identity["git"], patch = provenance.describe_git(Path())
    identity.pop("rules", None)  # those of the attempt before
    if request.rules:
        identity["rules"] = request.rules
    if not request.redactor.is_on:
        identity["redact"] = False
    return patch


def _store_patch(folder: RunFolder, identity: dict[str, Any], patch: bytes) -> None:
    """Store uncommitted changes of the code as a blob, and its name in the identity."""
    if patch:
        # A resumed run may come from other code than the attempt before it.
        digest = hashlib.sha256(patch).hexdigest()
        is_first = not (folder.blobs / "uncommitted.patch").exists()
        name = "uncommitted.patch" if is_first else f"uncommitted-{digest[:8]}.patch"
        identity["git"].update(patch=name, patch_sha256=digest)
        store_blob(folder, name, patch)


def _opened_by_rank_zero(folder: RunFolder, launch_id: str | None) -> ranks.RankRendezvous | None:
    """The run in a folder, if rank 0 of the same launch has opened it."""
    known = read_json(folder.identity) if folder.identity.exists() else None
    if known is None or known.get("launch_id") != launch_id or liveness(known) == "dead":
        return None
    return ranks.RankRendezvous(folder, max(1, folder.last_attempt()))


def _pending_place(request: Request) -> _Place:
    """A folder beside the runs, for a rank that has not found the folder of rank 0."""
    rank, launch_id = request.launch.rank, request.launch_id
    folder = ranks.pending_dir(request.root, launch_id)
    request.console.notice(
        f"rank {rank} found no run of rank 0 within {ranks.WAIT_S:.0f} s. It writes to"
        f" {folder.path} and moves its files at the end if rank 0 has started by then. Until then"
        " it is listed as a run of its own."
    )
    last_step = -1 if request.resume_step is None else request.resume_step - 1
    meeting = RankRendezvous(folder, 1, last_step)
    identity = {**_labels(request), "id": launch_id}
    return _Place(identity, meeting, rank_writer(rank), is_pending=True)


# -- writer and run --------------------------------------------------------------------------------


def _open(request: Request, place: _Place) -> Run:
    """Open the run of a place: a file in its journal, unless it is switched off, and a recorder."""
    identity, folder = {**place.identity, **process_identity()}, place.meeting.folder
    rank = _rank_of(place.writer)
    journal, attempt = None, place.meeting.attempt
    if request.settings.enabled:
        journal = _open_journal(request, place, request.redactor.identity(identity))
        attempt = journal.name.attempt
    recorder = Recorder(
        identity=identity,
        folder=folder,
        writer=journal,
        console=request.console,
        totals=request.totals,
        rank=rank,
        attempt=attempt,
        last_step=place.meeting.last_step,
        resume_step=request.resume_step,
        redactor=request.redactor,
    )
    recorder.values.strict = request.settings.strict
    if rank == 0 and kernel_shell() is not None:
        from epochal.run.notebook import RunCard

        recorder.console.card = RunCard(recorder)
    return Run(recorder, _start_fork)


def _open_journal(request: Request, place: _Place, recorded: dict[str, Any]) -> JournalWriter:
    """Open the file of this process; rank 0 writes ``run.json`` again if it has vanished."""
    folder, writer = place.meeting.folder, place.writer

    def restore() -> None:
        if writer == LOOP:
            with contextlib.suppress(OSError):
                write_json(folder.identity, recorded)

    def header(part: PartName) -> bytes:
        # Rank 0 writes the configuration, and a rank that has not found rank 0.
        has_config = part.part == 0 and (part.writer == LOOP or not folder.identity.exists())
        fields: dict[str, Any] = {"config": recorded.get("config") or {}} if has_config else {}
        return part_header(part, identity=recorded, rank=_rank_of(part.writer), **fields)

    journal = JournalWriter(
        folder,
        writer=writer,
        attempt=place.meeting.attempt,
        header=header,
        on_fault=request.console.notice,
        restore=restore,
    )
    journal.open(new_attempt=writer == LOOP)
    return journal


def _rank_of(writer: str) -> int:
    """The rank of a writer, -1 for a child process."""
    rank = rank_of_writer(writer)
    return -1 if rank is None else rank


# -- what follows ----------------------------------------------------------------------------------


def _announce(recorder: Recorder, request: Request, last_step: int) -> None:
    """Publish the folder of rank 0 to the other ranks, and greet."""
    if request.launch.world_size > 1 and request.folder is None:
        meeting = RankRendezvous(recorder.folder, recorder.attempt, recorder.step)
        ranks.publish(request.root, request.launch_id, meeting)
    _greet(recorder, request.resume_step, last_step)
    request.redactor.notice(request.console.notice)


def _greet(recorder: Recorder, resume_step: int | None, last_step: int) -> None:
    """Print where the run is recorded, and how far it had come if it is resumed or forked."""
    where, name, attempt = shown_path(recorder.folder.path), recorder.name, recorder.attempt
    if attempt > 1:
        epoch = last_epoch_of(recorder.folder, before_attempt=attempt) if last_step < 0 else None
        reached = format_reached(None if last_step < 0 else last_step, epoch)
        words = f"it had reached {reached}" if reached else "it had logged no step"
        words += "" if resume_step is None else f", and continues at step {resume_step:,}"
        greeting = f"run {name!r} resumed as attempt {attempt} in {where} ({words})"
    else:
        fork = recorder.identity.get("fork")
        since = f", forked from {fork['name']!r} after step {fork['step']:,}" if fork else ""
        greeting = f"run {name!r} is recorded in {where}{since}"
    recorder.console.line(f"epochal: {greeting}")


def _move_at_end(recorder: Recorder, request: Request) -> None:
    """Have a pending run move to the folder of rank 0 when it ends, if there is one by then."""

    def move() -> None:
        meeting = ranks.find(request.root, request.launch_id, wait_s=0.0)
        if meeting is not None:
            recorder.move_to(meeting.folder, meeting.attempt)

    recorder.ending.on_end.add(move)
