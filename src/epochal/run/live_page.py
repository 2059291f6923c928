"""Starts the live page beside a training, as a process of its own; nothing of it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from epochal.console.messages import error, msg
from epochal.errors import ValueTypeError

READY_WITHIN_S = 20.0
LINGER_S = 60.0


def serve_in_background(
    folder: str | Path,
    port: int | None = None,
    run_id: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Start a server beside this process and say where; None, with a sentence said, on failure.

    The address opens the page on the run of ``run_id``, else on the one that the page chooses. The
    server goes on for a minute after this process ends, so that pages see how it ended.
    ``environment`` is added to this process's own. Raises ``ValueTypeError`` for a port that is no
    number.
    """
    if port is not None and (isinstance(port, bool) or not isinstance(port, int)):
        raise ValueTypeError(f"port must be a whole number from 0 to 65535, got {port!r}.")
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
        why = said.get("error") or said.get("silence", "")
        error("%s", f"The live page could not be started: {why}")
        return None
    process.returncode = 0  # it outlives this process: nobody waits for it
    if said.get("note"):
        msg("%s", said["note"])
    if run_id is not None:
        url += f"#run={quote(run_id, safe='')}"
    msg("%s", f"Live page: {url}")
    return url


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """What the process says first; why it said nothing (``silence``) where it does not."""
    pipe = process.stdout
    assert pipe is not None
    said: list[bytes] = []
    # A thread, because a pipe cannot be waited for with a limit on every platform.
    reading = threading.Thread(target=lambda: said.append(pipe.readline()), daemon=True)
    reading.start()
    reading.join(READY_WITHIN_S)
    silence = "it ended before it was ready"
    if reading.is_alive():
        silence = f"it said nothing within {READY_WITHIN_S:.0f} s"
        process.kill()
        reading.join()
    pipe.close()
    try:
        words = json.loads(b"".join(said))
    except ValueError:
        words = None
    if not isinstance(words, dict):
        return {"silence": silence}
    return {str(key): str(value) for key, value in words.items()}
