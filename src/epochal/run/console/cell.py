"""Cells of a notebook: which one runs, and its output, displays of plain HTML redrawn in place.

Each run has a display, all loops share one. When the cell has ended, however it ended, each is
drawn once more without anything that would no longer be true.
"""

from __future__ import annotations

import linecache
import os
import sys
from typing import Any, ClassVar, Protocol

import msgspec

from epochal.base.guard import Guard
from epochal.run.console.live_line import Progress, lay_out
from epochal.run.console.messages import write_line
from epochal.series.html import progress_bar

INTERVAL_S = 0.5
_TEXT_COLUMNS = 100
_PROCESS = os.getpid()


def kernel_shell() -> Any:
    """The shell of a notebook's kernel; None in scripts, in terminals and in forked children."""
    ipython = sys.modules.get("IPython")
    find = getattr(ipython, "get_ipython", None)  # None while IPython itself is being imported
    shell = None if find is None or os.getpid() != _PROCESS else find()
    return None if getattr(shell, "kernel", None) is None else shell


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
    file, frame = "", None if shell is None else sys._getframe()
    while frame is not None:  # to the outermost cell on the stack
        if frame.f_globals is shell.user_ns and frame.f_code.co_name == "<module>":
            file = frame.f_code.co_filename
        frame = frame.f_back
    if not file:
        return None
    get_parent = getattr(shell, "get_parent", None)  # the request of a kernel; a terminal has none
    request: Any = get_parent() if get_parent is not None else None
    request = request if isinstance(request, dict) else {}
    source = "".join(linecache.getlines(file))
    return Cell(
        key=str(request.get("metadata", {}).get("cellId") or source or file),
        execution=str(request.get("header", {}).get("msg_id") or shell.execution_count),
    )


class Section(Protocol):
    """A run or a loop that a cell shows."""

    def end_cell(self, error: BaseException | None) -> None:
        """The cell has ended; an error that ended it is given."""


class CellOutput:
    """The displays of one execution of a cell."""

    _current: ClassVar[CellOutput | None] = None

    def __init__(self, shell: Any) -> None:
        self._sections: dict[Section, tuple[object, str, str]] = {}
        self._handles: dict[object, Any] = {}
        self._events = shell.events
        self._events.register("post_run_cell", self._end)

    @classmethod
    def current(cls) -> CellOutput | None:
        """The output of the cell that is running; None outside of a notebook."""
        shell = kernel_shell()
        if shell is not None and cls._current is None:
            cls._current = cls(shell)
        return cls._current if shell is not None else None

    @property
    def is_current(self) -> bool:
        """Whether its cell is still running."""
        return self is CellOutput.current()

    def show(self, section: Section, html: str, text: str, *, place: object = None) -> None:
        """Draw a section below the others of its place, also after the cell has ended.

        Each place is a display. ``text`` is for notebooks without HTML.
        """
        self._sections[section] = place, html, text
        self._publish(place)

    def leave(self, section: Section) -> None:
        """Remove a section."""
        if (shown := self._sections.pop(section, None)) is not None:
            self._publish(shown[0])

    def _publish(self, place: object) -> None:
        if kernel_shell() is None:
            return
        parts = [(html, text) for at, html, text in self._sections.values() if at is place]
        data = {
            "text/html": "".join(html for html, _ in parts),
            "text/plain": "\n".join(text for _, text in parts),
        }
        if place in self._handles:
            self._handles[place].update(data, raw=True)
        else:
            display: Any = sys.modules["IPython"].display.display
            self._handles[place] = display(data, raw=True, display_id=True)

    def _end(self, result: Any = None) -> None:
        self._events.unregister("post_run_cell", self._end)
        CellOutput._current = None
        error = getattr(result, "error_in_exec", None)
        for section in list(self._sections):
            Guard().run("notebook cell", section.end_cell, error)


class CellBar:
    """The bar of a loop in a cell; it has the methods of ``ProgressBar``."""

    def __init__(self, output: CellOutput, *, name: str, total: float | None, unit: str) -> None:
        self.total = total
        self._output = output
        self._name, self._unit = name, unit
        self._due = 0.0
        self._done = 0.0

    def update(self, done: float, *, now: float, **figures: float | None) -> None:
        """Draw the state of this moment, unless the last drawing is younger than half a second."""
        self._done = done
        if now >= self._due:
            self._due = now + INTERVAL_S
            self._draw(**figures)

    def write_above(self, text: str) -> None:
        """Print a line of text."""
        write_line(sys.stdout, text)

    def close(self) -> None:
        """Remove the bar."""
        self._output.leave(self)

    def end_cell(self, error: BaseException | None) -> None:
        """Draw how far the loop came: an interrupted cell may not close it."""
        self._draw("when the cell ended")

    def _draw(self, ending: str = "", /, **figures: float | None) -> None:
        progress = Progress(
            name=self._name, done=self._done, total=self.total, unit=self._unit, **figures
        )
        layout = lay_out(progress, columns=_TEXT_COLUMNS)
        text = f"{layout.left}{layout.right.strip()}  {ending}".rstrip()
        self._output.show(self, progress_bar(progress.share, text), text)
