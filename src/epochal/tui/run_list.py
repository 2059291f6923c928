"""The list of runs: state, alarm, name, last loss, and the colour of compared runs."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from epochal.format import format_number
from epochal.tui.app_state import AppState, RunRow
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip_text, heading, printable, spread
from epochal.tui.run_line import state_dot

_SHOWS_FIGURES_FROM = 24
_LEADING = 3  # colour, dot, alarm
_ALARMS = {"error": ("!", "bad"), "warning": ("!", "warn"), None: (" ", "")}


def run_list(
    state: AppState, *, columns: int, rows: int, glyphs: Glyphs, filtered: str
) -> list[Text]:
    """The runs around the chosen one; only the rows on the screen are read."""
    shown = f"{len(state.runs):,}" + (f" fit {filtered}" if filtered else "")
    lines = [heading("Runs", columns, glyphs=glyphs, remark=shown)]
    first = max(0, min(state.place - (rows - 1) // 2, len(state.runs) - rows + 1))
    runs = state.runs[first : first + rows - 1]
    found = state.rows(runs)
    colours = {id(run): style for run, style in state.compared_styles()}
    projects = {row.project for row in found if row is not None}
    for run, row in zip(runs, found, strict=True):
        line = _row_line(row, colours, id(run), columns=columns, glyphs=glyphs, projects=projects)
        if run is state.run:
            line.stylize("chosen", _LEADING)
        lines.append(line)
    if not state.runs:
        lines.append(Text.assemble(("no run fits" if filtered else "no runs yet", "dim")))
    return lines


def _row_line(
    row: RunRow | None,
    colours: Mapping[int, str],
    key: int,
    *,
    columns: int,
    glyphs: Glyphs,
    projects: set[str],
) -> Text:
    if row is None:
        return Text.assemble((f"  {glyphs.ellipsis}", "dim"))
    name = printable(row.name if len(projects) < 2 else f"{row.project}/{row.name}")
    figure = ""
    if row.figure is not None and columns >= _SHOWS_FIGURES_FROM:
        figure = f" {format_number(row.figure)}"
    left = Text.assemble(
        (glyphs.legend, colours[key]) if key in colours else " ",
        state_dot(row.state, glyphs=glyphs),
        _ALARMS[row.alarm],
        clip_text(name, columns - _LEADING - len(figure)),
    )
    return spread(left, Text.assemble((figure, "dim")), columns)
