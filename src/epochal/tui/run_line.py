"""Runs as lines: one run with its progress, and the list of runs."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from epochal.format import format_duration, format_number
from epochal.store.answers import RunInfo, State
from epochal.store.progress import Progress
from epochal.tui.app_state import AppState, RunRow
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip_text, fit, heading, printable, spread
from epochal.tui.spark import progress_bar

_STATES: dict[State, str] = {
    "running": "good",
    "finished": "accent",
    "waiting": "dim",
    "silent": "warn",
    "interrupted": "warn",
    "terminated": "warn",
    "failed": "bad",
    "crashed": "bad",
    "unreadable": "bad",
}
_SHORTEST_BAR, _LONGEST_BAR = 6, 40
_LEAST_NAME = 12


def state_dot(state: State, *, glyphs: Glyphs) -> tuple[str, str]:
    """The dot that shows the state of a run, and its style."""
    return (glyphs.running if state == "running" else glyphs.ended, _STATES[state])


def run_line(info: RunInfo, progress: Progress, *, columns: int, glyphs: Glyphs) -> Text:
    """State, name, bar, percent and time left; what matters least is left out first."""
    style = _STATES[info.status.state]
    line = Text.assemble(
        state_dot(info.status.state, glyphs=glyphs), (f" {info.status.text} ", style)
    )
    name = printable(f"{info.project}/{info.name}")
    ends = _ends(progress)
    while True:
        end = Text.assemble(*((f"  {text}", style) for text, style in ends))
        room = columns - line.cell_len - end.cell_len
        if len(name) + _SHORTEST_BAR + 2 <= room or not ends:
            break
        ends.pop()
    has_bar = progress.share is not None and room >= min(len(name), _LEAST_NAME) + 2 + _SHORTEST_BAR
    line.append(clip_text(name, room - (_SHORTEST_BAR + 2 if has_bar else 0)), "strong")
    if has_bar:
        assert progress.share is not None
        bar = min(columns - line.cell_len - end.cell_len - 2, _LONGEST_BAR)
        line.append("  ").append_text(progress_bar(progress.share, bar, glyphs=glyphs, style=style))
    return fit(line.append_text(end), columns)


def _ends(progress: Progress) -> list[tuple[str, str]]:
    """What follows the bar, the most important first."""
    ends = []
    if progress.share is not None:
        ends.append((f"{100 * progress.share:.0f} %", "strong"))
    if progress.eta_s is not None:
        ends.append((f"ETA {format_duration(progress.eta_s)}", "strong"))
    ends.append((progress.text, ""))
    if progress.elapsed_s is not None:
        words = "so far" if progress.is_going else "in all"
        ends.append((f"{format_duration(progress.elapsed_s)} {words}", "dim"))
    return ends


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
