"""The live page and the archive of a run: processes of their own, of which nothing is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from epochal.journal.archive_request import (
    WAIT_S,
    WAIT_WHEN_STOPPED_S,
    request_archive,
    write_requested_archives,
)
from epochal.run.console.messages import msg
from epochal.series.html import anchor
from epochal.settings import file_environment, settings_environment

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder

READY_WITHIN_S = 20.0
LINGER_S = 60.0


class PageAddress(str):
    """The address of a page; a notebook shows it as a link."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return anchor(self)


def serve(recorder: Recorder, port: int | None = None) -> str | None:
    """Start the live page of a run; the address, None on failure and for a run that is off."""
    if recorder.is_recorded:
        recorder.page_url = recorder.guard.run("live page", _serve, recorder, port)
    return recorder.page_url


def _serve(recorder: Recorder, port: int | None) -> PageAddress | None:
    """Start a server process and return its address; on failure print why and return None.

    The server goes on for a minute after this process ends, so that pages see how it ended.
    """
    command = [
        *(sys.executable, "-m", "epochal.api.serving", str(recorder.folder.path.parent.parent)),
        *("--parent", str(os.getpid()), "--linger", str(LINGER_S)),
        *(() if port is None else ("--port", str(port))),
    ]
    same = {} if recorder.settings is None else file_environment(recorder.settings)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **same},
            start_new_session=True,  # Ctrl-C is meant for the training
        )
        answer = _first_line(process)
    except OSError as failure:
        answer = {"error": f"{failure}."}
    if "url" not in answer:
        recorder.console.notice(f"the live page could not be started: {answer['error']}")
        return None
    process.returncode = 0  # it outlives this process: nobody waits for it
    if "note" in answer:
        msg("%s", answer["note"])
    url = f"{answer['url']}#run={quote(str(recorder.identity['id']), safe='')}"
    msg("%s", f"Live page: {url}")
    return PageAddress(url)


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Return what the server printed first; its ``error`` is why there is no ``url``."""
    assert process.stdout is not None
    # Reading a pipe has no time limit of its own on every platform.
    limit = threading.Timer(READY_WITHIN_S, process.kill)
    limit.start()
    try:
        with process.stdout as pipe:
            answer: dict[str, str] = json.loads(pipe.readline())
    except ValueError:
        process.kill()
        answer = {"error": f"it ended, or was not ready within {READY_WITHIN_S:.0f} s."}
    finally:
        limit.cancel()
    if "url" not in answer:
        process.wait()
    return answer


def save_html(recorder: Recorder, path: Path) -> None:
    """Have the archive of a run written when it ends; at once if it has ended."""
    if not recorder.is_recorded:
        return
    try:
        path.expanduser().parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        recorder.console.notice(f"the archive {path} cannot be written: {failure}.")
    request_archive(recorder.folder, path)
    if recorder.finished:
        _write_archives(recorder)
    elif recorder.rank == 0 and not recorder.has_archive:
        recorder.has_archive = True  # one callback writes all that are requested
        recorder.ending.after_finish.add(lambda status: _write_archives(recorder, status))


def _write_archives(recorder: Recorder, status: str = "finished") -> None:
    if not recorder.is_of_this_process:
        return
    wait_s = WAIT_S if status == "finished" else WAIT_WHEN_STOPPED_S
    same = {} if recorder.settings is None else settings_environment(recorder.settings)
    for archive in write_requested_archives(recorder.folder, wait_s=wait_s, environment=same):
        if archive.is_written:
            recorder.console.line(f"epochal: {archive.sentence}")
        else:
            recorder.console.notice(archive.sentence)
