"""Finds or makes the folder a run is written to, and opens this process's own file in it."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from epochal import provenance
from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.format import format_reached
from epochal.journal import ranks
from epochal.journal.header import part_header
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    create_run_folder,
    rank_of_writer,
    rank_writer,
    read_json,
    slugify,
    write_json,
)
from epochal.journal.line import now
from epochal.journal.process import liveness, process_identity
from epochal.journal.writer import JournalWriter
from epochal.media.files import store_blob
from epochal.records import FORMAT_VERSION
from epochal.run.console_reporter import Totals
from epochal.run.current import OPEN_RUNS
from epochal.run.recorder import Recorder
from epochal.run.request import Request
from epochal.run.resume import find_resumable, last_epoch_of, last_step_of, resumed_identity
from epochal.run.run import Run, recorder_of
from epochal.settings import LABELS
from epochal.settings.launch import Launch, read_parent_run
from epochal.settings.toml_file import shown_path
from epochal.sinks.unsent import SINKS_FILE

# How many runs this process has opened as a rank of each launch.
_num_opened: Counter[Launch] = Counter()


def open_run(request: Request) -> Run:
    """Open the requested run as rank 0, as another rank, or switched off."""
    if request.launch.world_size > 1 and request.folder is None:
        request = _numbered(request)
    rank, folder = request.launch.rank, request.folder
    if not request.settings.enabled:
        nowhere = ranks.RankRendezvous(RunFolder(Path(os.devnull)), 1)
        return _open_file(request, {**_labels(request), "id": "off"}, nowhere)
    if rank == 0:
        return _start_rank_zero(request)
    if folder is None:
        meeting = ranks.find(request.root, request.launch_id)
    else:
        meeting = _opened_by_rank_zero(RunFolder(folder), request.launch.launch_id)
    if meeting is not None:
        identity = read_json(meeting.folder.identity)
        return _open_file(request, identity, meeting, rank_writer(rank))
    return _wait_aside(request) if folder is None else _start_rank_zero(request)


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


def join_parent(request: Request) -> Run | None:
    """In a process started by ``multiprocessing``: the parent's run, in a file of its own."""
    current = OPEN_RUNS.current
    if current is not None and not recorder_of(current).is_of_this_process:
        return current  # forked: the writer has already turned to a file of its own
    if multiprocessing.parent_process() is None:
        return None
    parent = read_parent_run()
    if parent is None or not Path(parent.folder).is_dir():
        return None
    folder, silent = RunFolder(Path(parent.folder)), Console(verbosity=Verbosity.QUIET)
    return _open_file(
        msgspec.structs.replace(request, console=silent, totals=Totals()),
        read_json(folder.identity),
        ranks.RankRendezvous(folder, parent.attempt),
        writer=f"child-{os.getpid()}",
    )


def _labels(request: Request) -> dict[str, Any]:
    settings = request.settings
    owner = settings.owner or provenance.user_name()
    own = {"name": request.name, "owner": owner, "config": request.config}
    return {**{label: getattr(settings, label) for label in LABELS}, **own}


# -- rank 0 ---------------------------------------------------------------------------------------


def _start_rank_zero(request: Request) -> Run:
    """Make the folder of the run or resume an older run, and publish the folder to other ranks."""
    launch, folder = request.launch, find_resumable(request)
    if folder is None:
        identity, folder = _new_run(request)
        attempt = 1
    else:
        identity, attempt = resumed_identity(folder, request)
    identity.update(world_size=launch.world_size, launch_id=launch.launch_id, **process_identity())
    identity.update(provenance.describe_process(), packages=provenance.describe_packages())
    if request.settings.git:
        identity["git"] = _describe_git(folder)
    identity.pop("rules", None)  # those of the attempt before
    if request.rules:
        identity["rules"] = request.rules
    if not request.redactor.is_on:
        identity["redact"] = False
    write_json(folder.identity, request.redactor.identity(identity))
    folder.journal.mkdir(exist_ok=True)
    if (reporting := request.reporting).report_to:
        path = folder.path / SINKS_FILE
        kept = read_json(path) if path.exists() else {}
        kept.update(report_to=list(reporting.report_to), options=dict(reporting.given))
        write_json(path, kept)
    last_step = last_step_of(folder, identity, before_attempt=attempt)
    meeting = ranks.RankRendezvous(folder, attempt, last_step)
    run = _open_file(request, identity, meeting)
    if launch.world_size > 1 and request.folder is None:
        meeting = ranks.RankRendezvous(folder, run.attempt, run.step)
        ranks.publish(request.root, request.launch_id, meeting)
    _greet(recorder_of(run), request.resume_step, last_step)
    request.redactor.notice(request.console.notice)
    return run


def _new_run(request: Request) -> tuple[dict[str, Any], RunFolder]:
    labels, parent = _labels(request), None
    project = labels["project"]
    if request.fork_from is not None:
        from epochal.run.fork import find_parent

        parent = find_parent(request.fork_from, root=request.root, project=project)
        labels["config"] = {**parent.config, **request.config}
    if request.folder is not None:
        folder = RunFolder(request.folder)
        folder.path.mkdir(parents=True, exist_ok=True)
    else:
        folder, labels["name"] = create_run_folder(request.root / slugify(project), request.name)
    if labels["name"] != request.name and request.settings.name is not None:
        request.console.notice(
            f"a run named {request.name!r} exists already, so this one is {labels['name']!r}"
            " (resume='allow' would continue the existing one)."
        )
    identity = {
        "v": FORMAT_VERSION,
        "id": request.id or secrets.token_hex(6),
        "created": now(),
        **labels,
        "totals": request.totals.as_record(),
    }
    if parent is not None:
        identity["fork"] = parent.record()
        parent.copy_history(folder, request.redactor.identity(identity))
    return identity, folder


def _describe_git(folder: RunFolder) -> dict[str, Any] | None:
    """Return the facts of the repository, and store its uncommitted changes as a blob."""
    facts, patch = provenance.describe_git(Path())
    if facts is not None and patch:
        # A resumed run may come from other code than the attempt before it.
        digest = hashlib.sha256(patch).hexdigest()
        is_first = not (folder.blobs / "uncommitted.patch").exists()
        facts["patch"] = "uncommitted.patch" if is_first else f"uncommitted-{digest[:8]}.patch"
        facts["patch_sha256"] = digest
        store_blob(folder, facts["patch"], patch)
    return facts


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


# -- other ranks ----------------------------------------------------------------------------------


def _opened_by_rank_zero(folder: RunFolder, launch_id: str | None) -> ranks.RankRendezvous | None:
    """The run in a folder, if rank 0 of the same launch has opened it."""
    known = read_json(folder.identity) if folder.identity.exists() else None
    if known is None or known.get("launch_id") != launch_id or liveness(known) == "dead":
        return None
    return ranks.RankRendezvous(folder, max(1, folder.last_attempt()))


def _wait_aside(request: Request) -> Run:
    """Write to a pending folder, and move to that of rank 0 at the end if there is one then."""
    rank, launch_id = request.launch.rank, request.launch_id
    pending = ranks.pending_dir(request.root, launch_id)
    request.console.notice(
        f"rank {rank} found no run of rank 0 within {ranks.WAIT_S:.0f} s. It writes to"
        f" {pending.path} and moves its files at the end if rank 0 has started by then. Until then"
        " it is listed as a run of its own."
    )
    last_step = -1 if request.resume_step is None else request.resume_step - 1
    run = _open_file(
        request,
        {**_labels(request), "id": launch_id},
        ranks.RankRendezvous(pending, 1, last_step),
        rank_writer(rank),
    )
    recorder = recorder_of(run)

    def move() -> None:
        meeting = ranks.find(request.root, launch_id, wait_s=0.0)
        if meeting is not None:
            recorder.move_to(meeting.folder, meeting.attempt)

    recorder.ending.on_end.add(move)
    return run


# -- opening --------------------------------------------------------------------------------------


def _open_file(
    request: Request, identity: dict[str, Any], meeting: ranks.RankRendezvous, writer: str = LOOP
) -> Run:
    """Open the journal of one writer in a run's folder; a run that is switched off has none."""
    identity, folder = {**identity, **process_identity()}, meeting.folder
    recorded = request.redactor.identity(identity)

    def restore() -> None:
        if writer == LOOP:
            with contextlib.suppress(OSError):
                write_json(folder.identity, recorded)

    def header(part: PartName) -> bytes:
        # Rank 0 writes the configuration, and a rank that has not found rank 0.
        has_config = part.part == 0 and (part.writer == LOOP or not folder.identity.exists())
        fields: dict[str, Any] = {"config": recorded.get("config") or {}} if has_config else {}
        return part_header(part, identity=recorded, rank=_rank_of(part.writer), **fields)

    journal, attempt = None, meeting.attempt
    if request.settings.enabled:
        journal = JournalWriter(
            folder,
            writer=writer,
            attempt=attempt,
            header=header,
            on_fault=request.console.notice,
            restore=restore,
        )
        journal.open(new_attempt=writer == LOOP)
        attempt = journal.name.attempt
    recorder = Recorder(
        identity=identity,
        folder=folder,
        writer=journal,
        console=request.console,
        totals=request.totals,
        rank=_rank_of(writer),
        attempt=attempt,
        last_step=meeting.last_step,
        resume_step=request.resume_step,
        redactor=request.redactor,
    )
    return Run(recorder)


def _rank_of(writer: str) -> int:
    """The rank of a writer, -1 for a child process."""
    rank = rank_of_writer(writer)
    return -1 if rank is None else rank
