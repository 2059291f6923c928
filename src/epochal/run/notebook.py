"""A run in a notebook: which cell opened it, and how a cell shows it.

Running a cell again ends the run that it opened before. A run that is the last expression of a cell
is shown as the live page in a frame while it is open. The page's server is a separate process that
ends a minute after the kernel, so a restart does not hang. A finished run is shown as its archive,
inside the notebook itself.
"""

from __future__ import annotations

import html
import linecache
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from epochal.guard import Guard
from epochal.journal.archive_request import WAIT_S, start_writing
from epochal.run import pages

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder

_HEIGHT_PX = 640


class Cell(msgspec.Struct, frozen=True):
    """A cell of a notebook and one execution of it.

    ``key`` is the id that the notebook gave the cell or, where it gives none, the cell's source.
    """

    key: str
    execution: str

    def is_rerun_of(self, other: Cell | None) -> bool:
        """Whether this is a later execution of the same cell."""
        return other is not None and self.key == other.key and self.execution != other.execution


def calling_cell() -> Cell | None:
    """The cell whose execution the caller is part of; None outside of IPython."""
    if "IPython" not in sys.modules:
        return None
    return Guard().run("notebook cell", _find_cell)  # IPython's objects differ between versions


def _find_cell() -> Cell | None:
    shell: Any = sys.modules["IPython"].get_ipython()
    file = None if shell is None else _cell_file(shell.user_ns)
    if file is None:
        return None
    get_parent = getattr(shell, "get_parent", None)  # the request of a kernel; a terminal has none
    request: Any = get_parent() if get_parent is not None else None
    request = request if isinstance(request, dict) else {}
    source = "".join(linecache.getlines(file))
    return Cell(
        key=str(request.get("metadata", {}).get("cellId") or source or file),
        execution=str(request.get("header", {}).get("msg_id") or shell.execution_count),
    )


def _cell_file(namespace: dict[str, Any]) -> str | None:
    """The file name under which the outermost cell on the stack was compiled."""
    found = None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is namespace and frame.f_code.co_name == "<module>":
            found = frame.f_code.co_filename
        frame = frame.f_back
    return found


def frame(recorder: Recorder, *, otherwise: str) -> str:
    """A run as HTML: the live page, or the archive once it has finished; a text without one."""
    return _page_frame(recorder) or f"<code>{html.escape(otherwise)}</code>"


def _page_frame(recorder: Recorder) -> str | None:
    if not recorder.is_recorded:
        return None
    if recorder.finished:
        return _archive_frame(recorder.folder.path)
    if recorder.page_url is None:
        recorder.page_url = pages.serve(recorder)
    return None if recorder.page_url is None else _live_frame(recorder.page_url)


def _live_frame(url: str) -> str:
    """The live page in a frame."""
    return f'<iframe src="{html.escape(url, quote=True)}" {_size()}></iframe>'


def _archive_frame(folder: Path) -> str | None:
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
