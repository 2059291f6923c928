"""The live page and the archive of a run: processes of their own, of which nothing is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from epochal.console.messages import error, msg
from epochal.errors import ValueTypeError
from epochal.journal.archive_request import (
    WAIT_S,
    WAIT_WHEN_STOPPED_S,
    request_archive,
    write_requested_archives,
)
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
    """Start the live page of a run; the address, None on failure and for a run that is off.

    Raises ``UsageError`` for a port that there cannot be.
    """
    check_port(port)
    if not recorder.is_recorded:
        return None
    folder, run_id = recorder.folder.path.parent.parent, str(recorder.identity["id"])
    same = {} if recorder.settings is None else file_environment(recorder.settings)
    url = recorder.guard.run("live page", serve_in_background, folder, port, run_id, same)
    recorder.page_url = None if url is None else PageAddress(url)
    return recorder.page_url


def check_port(port: object) -> None:
    """Refuse what is neither None nor a port."""
    if port is None or (type(port) is int and 0 <= port <= 65535):
        return
    raise ValueTypeError(
        f"port must be a whole number from 0 to 65535, as in serve(6060), got {port!r}."
    )


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


def serve_in_background(
    folder: str | Path,
    port: int | None = None,
    run_id: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Start a server process and return its address; on failure print why and return None.

    The address opens the page on the run of ``run_id``, else on the one that the page chooses. The
    server goes on for a minute after this process ends, so that pages see how it ended.
    ``environment`` is added to this process's own.
    """
    command = [
        *(sys.executable, "-m", "epochal.serving", str(Path(folder).absolute())),
        *("--parent", str(os.getpid()), "--linger", str(LINGER_S)),
        *(() if port is None else ("--port", str(port))),
    ]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C is meant for the training
        )
    except OSError as failure:
        error("%s", f"The live page could not be started: {failure}.")
        return None
    said = _first_line(process)
    url = said.get("url")
    if url is None:
        process.kill()
        process.wait()
        error("%s", f"The live page could not be started: {said['error']}")
        return None
    process.returncode = 0  # it outlives this process: nobody waits for it
    if said.get("note"):
        msg("%s", said["note"])
    if run_id is not None:
        url += f"#run={quote(run_id, safe='')}"
    msg("%s", f"Live page: {url}")
    return url


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Return what the server printed first; its ``error`` is why there is no ``url``."""
    pipe = process.stdout
    assert pipe is not None
    lines: list[bytes] = []
    # A thread, because a pipe cannot be waited for with a limit on every platform.
    reading = threading.Thread(target=lambda: lines.append(pipe.readline()), daemon=True)
    reading.start()
    reading.join(READY_WITHIN_S)
    silence = "it ended before it was ready"
    if reading.is_alive():
        silence = f"it printed nothing within {READY_WITHIN_S:.0f} s"
        process.kill()
        reading.join()
    pipe.close()
    try:
        return {"error": silence, **json.loads(b"".join(lines))}
    except (TypeError, ValueError):
        return {"error": silence}
