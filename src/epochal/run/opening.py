"""Finds or makes the folder a run is written to, and opens this process's own file in it."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec

from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.format import format_reached
from epochal.journal.header import part_header
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    create_run_folder,
    rank_writer,
    read_json,
    slugify,
    write_json,
)
from epochal.journal.line import now
from epochal.journal.process import liveness, process_identity
from epochal.journal.writer import JournalWriter
from epochal.records import FORMAT_VERSION
from epochal.redact import Redactor
from epochal.run import provenance, ranks
from epochal.run.current import OPEN_RUNS
from epochal.run.forwarded import note_reporting
from epochal.run.progress_estimator import Totals
from epochal.run.recorder import Recorder
from epochal.run.request import Request
from epochal.run.resume import find_resumable, last_epoch_of, last_step_of, resumed_identity
from epochal.run.run import Run, recorder_of
from epochal.run.samples import store_blob
from epochal.settings import Settings
from epochal.settings.launch import Launch, read_parent_run

# -- rank 0 ---------------------------------------------------------------------------------------


def start_rank_zero(request: Request, launch: Launch, settings: Settings) -> Run:
    """Make the folder of the run or resume an older run, and publish the folder to other ranks."""
    found = find_resumable(request)
    parent = None
    if found is None:
        if request.fork_from is not None:
            from epochal.run.fork import find_parent

            parent = find_parent(request.fork_from, root=request.root, project=request.project)
            request = msgspec.structs.replace(request, config={**parent.config, **request.config})
        identity, folder, attempt = _new_run(request)
        if parent is not None:
            identity["fork"] = parent.record()
            parent.copy_history(folder, request.redactor.identity(identity))
    else:
        folder = found
        identity, attempt = resumed_identity(folder, request)
    identity.update(world_size=launch.world_size, launch_id=launch.launch_id, **process_identity())
    _add_provenance(identity, folder, settings)
    identity.pop("rules", None)  # those of the attempt before
    if request.rules:
        identity["rules"] = request.rules
    if not request.redactor.is_on:
        identity["redact"] = False
    write_json(folder.identity, request.redactor.identity(identity))
    folder.journal.mkdir(exist_ok=True)
    if request.reporting.report_to:
        note_reporting(folder, request.reporting)
    last_step = last_step_of(folder, before_attempt=attempt) if attempt > 1 else -1
    if last_step < 0 and isinstance(identity.get("fork"), dict):
        last_step = int(identity["fork"]["step"])
    run = _open_run(
        identity,
        folder,
        writer=LOOP,
        attempt=attempt,
        rank=0,
        console=request.console,
        totals=request.totals,
        last_step=last_step,
        resume_step=request.resume_step,
        redactor=request.redactor,
    )
    if launch.world_size > 1 and request.run_folder is None:
        meeting = ranks.RankRendezvous(folder, run.attempt, run.step)
        ranks.publish(request.root, _launch_id(launch, request), meeting)
    _greet(recorder_of(run), request, last_step)
    request.redactor.notice(request.console.notice)
    return run


def _new_run(request: Request) -> tuple[dict[str, Any], RunFolder, int]:
    if request.run_folder is not None:
        folder, name = RunFolder(request.run_folder), request.name
        folder.path.mkdir(parents=True, exist_ok=True)
    else:
        folder, name = create_run_folder(request.root / slugify(request.project), request.name)
    if name != request.name and request.named:
        request.console.notice(
            f"a run named {request.name!r} exists already, so this one is {name!r}"
            " (resume='allow' would go on with it)."
        )
    identity = {
        "v": FORMAT_VERSION,
        "id": request.id or secrets.token_hex(6),
        "name": name,
        "project": request.project,
        "created": now(),
        "tags": request.tags,
        "notes": request.notes,
        "group": request.group,
        "job_type": request.job_type,
        "owner": request.owner or provenance.user_name(),
        "config": request.config,
        "totals": request.totals.as_record(),
    }
    return identity, folder, 1


def _add_provenance(identity: dict[str, Any], folder: RunFolder, settings: Settings) -> None:
    identity.update(provenance.describe_process())
    identity["packages"] = provenance.describe_packages()
    if not settings.git:
        return
    facts, patch = provenance.describe_git(Path())
    identity["git"] = facts
    if facts is not None and patch:
        # A resumed run may come from other code than the attempt before it.
        digest = hashlib.sha256(patch).hexdigest()
        is_first = not (folder.blobs / "uncommitted.patch").exists()
        facts["patch"] = "uncommitted.patch" if is_first else f"uncommitted-{digest[:8]}.patch"
        facts["patch_sha256"] = digest
        store_blob(folder, facts["patch"], patch)


def _greet(recorder: Recorder, request: Request, last_step: int) -> None:
    where, name = _shown_path(recorder.folder.path), recorder.name
    if recorder.attempt > 1:
        recorder.console.line(
            f"epochal: run {name!r} resumed as attempt {recorder.attempt} in {where}"
            f" ({_where_from(recorder, request.resume_step, last_step)})"
        )
    else:
        fork = recorder.identity.get("fork")
        since = f", forked from {fork['name']!r} after step {fork['step']:,}" if fork else ""
        recorder.console.line(f"epochal: run {name!r} is recorded in {where}{since}")


def _where_from(recorder: Recorder, resume_step: int | None, last_step: int) -> str:
    """Say how far the run had come, and where it continues if that is known already."""
    step = None if last_step < 0 else last_step
    epoch = None
    if step is None:
        epoch = last_epoch_of(recorder.folder, before_attempt=recorder.attempt)
    reached = format_reached(step, epoch)
    words = f"it had reached {reached}" if reached else "it had logged no step"
    return words if resume_step is None else f"{words}, and continues at step {resume_step:,}"


def _shown_path(path: Path) -> str:
    """Return a path relative to the working folder, unless it is outside of that."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the working folder is gone, or on another drive
        return str(path)
    return str(path) if relative.startswith(os.pardir) else relative


# -- other ranks, children, nothing ---------------------------------------------------------------


def start_other_rank(request: Request, launch: Launch) -> Run:
    """Join the folder of rank 0; write to a pending folder if there is none in time."""
    launch_id = _launch_id(launch, request)
    meeting = ranks.find(request.root, launch_id)
    if meeting is None:
        return _wait_aside(request, launch, launch_id)
    return _open_run(
        {**_wait_for_identity(meeting.folder), **process_identity()},
        meeting.folder,
        writer=rank_writer(launch.rank),
        attempt=meeting.attempt,
        rank=launch.rank,
        console=request.console,
        totals=request.totals,
        last_step=meeting.last_step,
        redactor=request.redactor,
    )


def join_rank_zero(request: Request, launch: Launch) -> Run | None:
    """Join the requested folder as another rank; None if rank 0 has not opened it."""
    folder = RunFolder(request.run_folder or request.root)
    if launch.rank == 0 or not folder.identity.exists():
        return None
    known = read_json(folder.identity)
    if known.get("launch_id") != launch.launch_id or liveness(known) == "dead":
        return None
    return _open_run(
        {**known, **process_identity()},
        folder,
        writer=rank_writer(launch.rank),
        attempt=max(1, folder.last_attempt()),
        rank=launch.rank,
        console=request.console,
        totals=request.totals,
        redactor=request.redactor,
    )


def _wait_aside(request: Request, launch: Launch, launch_id: str) -> Run:
    aside = ranks.pending_dir(request.root, launch_id)
    request.console.notice(
        f"rank {launch.rank} found no run of rank 0 within {ranks.WAIT_S:.0f} s; it writes under"
        f" {aside.path} and moves over at the end if rank 0 has appeared by then. Until then it is"
        " listed as a run of its own."
    )
    names = {"id": launch_id, "name": request.name, "project": request.project}
    run = _open_run(
        {**names, "config": request.config, **process_identity()},
        aside,
        has_config=True,  # nobody else writes it should rank 0 never appear
        writer=rank_writer(launch.rank),
        attempt=1,
        rank=launch.rank,
        console=request.console,
        totals=request.totals,
        last_step=-1 if request.resume_step is None else request.resume_step - 1,
        redactor=request.redactor,
    )
    recorder = recorder_of(run)
    recorder.ending.on_end.add(lambda: _move_to_rank_zero(recorder, request.root, launch_id))
    return run


def _move_to_rank_zero(recorder: Recorder, root: Path, launch_id: str) -> None:
    found = ranks.find(root, launch_id, wait_s=0.0)
    if found is not None:
        recorder.move_to(found.folder, found.attempt)


def _launch_id(launch: Launch, request: Request) -> str:
    return launch.launch_id or slugify(f"{request.project}-{request.name}")


def _wait_for_identity(folder: RunFolder) -> dict[str, Any]:
    """Rank 0 publishes the folder just before it writes run.json into it."""
    deadline = time.monotonic() + ranks.WAIT_S
    while not folder.identity.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return read_json(folder.identity)


def join_parent(console: bool | Console | None, redactor: Redactor) -> Run | None:
    """In a process started by ``multiprocessing``: the parent's run, in a file of its own."""
    current = OPEN_RUNS.current
    if current is not None and not recorder_of(current).is_of_this_process:
        return current  # forked: the writer has already turned to a file of its own
    if multiprocessing.parent_process() is None:
        return None
    parent = read_parent_run()
    if parent is None or not Path(parent.folder).is_dir():
        return None
    folder = RunFolder(Path(parent.folder))
    return _open_run(
        {**read_json(folder.identity), **process_identity()},
        folder,
        writer=f"child-{os.getpid()}",
        attempt=parent.attempt,
        rank=-1,
        console=console if isinstance(console, Console) else Console(verbosity=Verbosity.QUIET),
        totals=Totals(),
        redactor=redactor,
    )


def switched_off(request: Request) -> Run:
    """A run that checks its arguments and writes nothing."""
    names = {"id": "off", "name": request.name, "project": request.project}
    labels = {"group": request.group, "job_type": request.job_type, "owner": request.owner}
    recorder = Recorder(
        identity={**names, **labels, "config": request.config, **process_identity()},
        folder=RunFolder(Path(os.devnull)),
        writer=None,
        console=request.console,
        totals=request.totals,
        redactor=request.redactor,
    )
    return Run(recorder)


# -- opening --------------------------------------------------------------------------------------


def _open_run(
    identity: dict[str, Any],
    folder: RunFolder,
    *,
    writer: str,
    attempt: int,
    rank: int,
    console: Console,
    totals: Totals,
    last_step: int = -1,
    resume_step: int | None = None,
    redactor: Redactor,
    has_config: bool = False,
) -> Run:
    recorded = redactor.identity(identity)

    def restore() -> None:
        if writer == LOOP:
            with contextlib.suppress(OSError):
                write_json(folder.identity, recorded)

    journal = JournalWriter(
        folder,
        writer=writer,
        attempt=attempt,
        header=lambda part: _header(
            part, recorded, rank, has_config=has_config or part.writer == LOOP
        ),
        on_fault=console.notice,
        restore=restore,
    )
    journal.open(new_attempt=writer == LOOP)
    recorder = Recorder(
        identity=identity,
        folder=folder,
        writer=journal,
        console=console,
        totals=totals,
        rank=rank,
        attempt=journal.name.attempt,
        last_step=last_step,
        resume_step=resume_step,
        redactor=redactor,
    )
    return Run(recorder)


def _header(part: PartName, identity: dict[str, Any], rank: int, *, has_config: bool) -> bytes:
    """The first record of a part; a child process has no rank of its own."""
    rank = -1 if part.writer.startswith("child-") else rank
    if has_config and part.part == 0:
        return part_header(part, identity=identity, rank=rank, config=identity.get("config") or {})
    return part_header(part, identity=identity, rank=rank)
