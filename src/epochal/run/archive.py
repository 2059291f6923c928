"""Has the archive of a finished run written, one HTML file, by a process of its own."""

from __future__ import annotations

import subprocess

from epochal.journal.archive_wish import archive_command
from epochal.journal.layout import RunFolder

WAIT_S = 5.0


def write_asked_archive(folder: RunFolder, *, wait_s: float = WAIT_S) -> str:
    """Start the writing and wait a while; a sentence on how it stands, "" when none is asked."""
    command = archive_command(folder)
    if command is None:
        return ""
    where = command[-1]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _, said = process.communicate(timeout=wait_s)
    except OSError as error:
        return f"the archive {where} could not be written: {error}"
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it goes on by itself: nobody waits for it
        if process.stderr is not None:
            process.stderr.close()
        return f"the archive is still being written to {where}"
    if process.returncode:
        why = said.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
        return f"the archive {where} could not be written: {why[-1]}"
    return f"the archive is in {where}"
