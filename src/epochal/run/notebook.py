"""Shows a run as the last expression of a notebook cell.

A live run is the live page in a frame; its server is a separate process that ends a minute after
the kernel, so a restart does not hang. A finished run is its archive, inside the notebook itself.
"""

from __future__ import annotations

import html
import subprocess
import tempfile
from pathlib import Path

from epochal.journal.archive_request import WAIT_S, start_writing

_HEIGHT_PX = 640


def live_frame(url: str) -> str:
    """The live page in a frame."""
    return f'<iframe src="{html.escape(url, quote=True)}" {_size()}></iframe>'


def archive_frame(folder: Path) -> str | None:
    """The archive of a run in a self-contained frame; None when it cannot be written."""
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary) / "run.html"
        try:
            process = start_writing(folder, page)
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            text = page.read_text(encoding="utf-8")  # missing where it was not written
        except OSError:
            return None
    return f'<iframe srcdoc="{html.escape(text, quote=True)}" {_size()}></iframe>'


def _size() -> str:
    return f'style="width:100%;height:{_HEIGHT_PX}px;border:0" loading="lazy"'
