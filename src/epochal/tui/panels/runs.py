"""The list of runs: state, alarm, name, last loss, and the colour of those that are compared."""

from __future__ import annotations

from collections.abc import Mapping

from epochal.format import format_number
from epochal.tui.app_state import AppState, RunRow
from epochal.tui.cells import Line, Span, clip_text, fit, printable, spread
from epochal.tui.glyphs import Glyphs
from epochal.tui.panels.heading import state_dot, title

_SHOWS_FIGURES_FROM = 24
_LEADING = 3  # colour, dot, alarm
_ALARMS = {"error": "bad", "warning": "warn"}


def run_list(
    state: AppState, *, columns: int, rows: int, glyphs: Glyphs, filtered: str
) -> list[Line]:
    """The runs around the chosen one."""
    shown = f"{len(state.runs):,}" + (f" fit {filtered}" if filtered else "")
    lines = [title("Runs", columns, glyphs=glyphs, remark=shown)]
    first = first_shown(state.place, len(state.runs), rows - 1)
    runs = state.runs[first : first + rows - 1]
    colours = {id(run): style for run, style in state.others()}
    projects = {row.project for row in state.rows(runs) if row is not None}
    for run, row in zip(runs, state.rows(runs), strict=True):
        line = _row_line(row, colours, id(run), columns=columns, glyphs=glyphs, projects=projects)
        lines.append(_chosen(line, columns) if run is state.run else line)
    if not state.runs:
        lines.append((Span("no run fits" if filtered else "no runs yet", "dim"),))
    return lines


def first_shown(place: int, total: int, rows: int) -> int:
    """Where a list begins so that the chosen row is in its middle, or as near as its ends allow."""
    return max(0, min(place - rows // 2, total - rows))


def _row_line(
    row: RunRow | None,
    colours: Mapping[int, str],
    key: int,
    *,
    columns: int,
    glyphs: Glyphs,
    projects: set[str],
) -> Line:
    if row is None:
        return fit((Span(f"  {glyphs.ellipsis}", "dim"),), columns)
    mark = Span(glyphs.legend, colours[key]) if key in colours else Span(" ")
    name = printable(row.name if len(projects) < 2 else f"{row.project}/{row.name}")
    figure = ""
    if row.figure is not None and columns >= _SHOWS_FIGURES_FROM:
        figure = f" {format_number(row.figure)}"
    room = columns - 3 - len(figure)
    left = (
        mark,
        state_dot(row.state, glyphs=glyphs),
        Span(" ") if row.alarm is None else Span("!", _ALARMS[row.alarm]),
        Span(clip_text(name, room, ellipsis=glyphs.ellipsis)),
    )
    return spread(left, (Span(figure, "dim"),), columns)


def _chosen(line: Line, columns: int) -> Line:
    """The row set off as a whole; its dot and its colour stay what they are."""
    return tuple(
        span if index < _LEADING else Span(span.text, "chosen")
        for index, span in enumerate(fit(line, columns))
    )
