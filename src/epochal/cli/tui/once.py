"""A run printed once, as plain lines: for pipes and batch logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.text import Text

from epochal.cli.tui.chart import View, curves_of, draw_chart, title
from epochal.cli.tui.state import AppState
from epochal.cli.tui.text import console_for, printable, run_line
from epochal.cli.tui.vitals import finding_lines, findings_of, vital_lines, vitals_of
from epochal.store.progress import progress_of

_CHART_ROWS, _FINDING_ROWS = 16, 12

# Stretches of text, each in one style.
Pieces = list[tuple[str, str]]


def print_once(state: AppState, *, columns: int, now: float) -> Iterator[Pieces]:
    """The chosen run as it is at the Unix time ``now``, line by line."""
    console = console_for(sys.stdout)
    for line in _lines(state, columns, now):
        yield [(part.text, str(part.style or "")) for part in Text.assemble(line).render(console)]


def _lines(state: AppState, columns: int, now: float) -> Iterator[Text]:
    run = state.run
    if run is None:
        yield Text("No runs here yet.")
        return
    yield run_line(run.info, progress_of(run, run.info, now=now), columns=columns)
    if state.trouble:
        yield Text(f"  {printable(state.trouble)}", "bad")
    findings = findings_of(run)
    metric, view = state.metric(None), View()
    if metric is not None:
        curves, axis = curves_of(run, metric, view, state.compared)
        yield Text()
        yield title(curves, axis, view, columns)
        flagged = [one.steps[0] for one in findings if one.steps is not None]
        yield from draw_chart(
            curves,
            axis,
            columns=columns,
            rows=_CHART_ROWS,
            flagged=flagged if axis == "step" else (),
        )
    if vitals := vital_lines(vitals_of(run), columns=columns):
        yield Text()
        yield from vitals
    if findings:
        yield Text()
        yield from finding_lines(findings, columns=columns, rows=_FINDING_ROWS)
