"""How a run shows itself as the last expression of a notebook's cell.

While it runs, as the live page in a frame; the page's server is a process of its own that ends a
minute after the kernel, so a restart hangs on nothing. Afterwards as its archive, inside the
notebook itself.
"""

from __future__ import annotations

import html
import subprocess
import sys
import tempfile
from pathlib import Path

_HEIGHT_PX = 640
_ARCHIVE_WITHIN_S = 60.0


def live_frame(url: str) -> str:
    """The live page in a frame."""
    return f'<iframe src="{html.escape(url, quote=True)}" {_size()}></iframe>'


def archive_frame(folder: Path) -> str | None:
    """The archive of a run in a frame that needs nothing else; None when it cannot be made."""
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary) / "run.html"
        command = [sys.executable, "-m", "epochal", "--quiet", "export", str(folder)]
        try:
            subprocess.run(
                [*command, "--format", "html", "--output", str(page)],
                check=True,
                timeout=_ARCHIVE_WITHIN_S,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
            text = page.read_text(encoding="utf-8")
        except (OSError, subprocess.SubprocessError):
            return None
    return f'<iframe srcdoc="{html.escape(text, quote=True)}" {_size()}></iframe>'


def _size() -> str:
    return f'style="width:100%;height:{_HEIGHT_PX}px;border:0" loading="lazy"'
