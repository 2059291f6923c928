"""Which notebook cell a call comes from: running that cell again ends the run it opened."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

from epochal.guard import Guard


@dataclass(frozen=True, slots=True)
class Cell:
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
