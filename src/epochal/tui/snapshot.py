"""A run once, as plain lines: for pipes, batch logs and a glance."""

from __future__ import annotations

from collections.abc import Iterator

from epochal.store.progress import progress_of
from epochal.tui.app_state import AppState
from epochal.tui.cells import EMPTY, Line, Span
from epochal.tui.glyphs import Glyphs
from epochal.tui.machine import gpus_of, hosts_of
from epochal.tui.panels.charts import large_chart
from epochal.tui.panels.heading import run_line, title
from epochal.tui.panels.machines import gpu_lines, host_lines
from epochal.tui.panels.vital_signs import vital_lines
from epochal.tui.panels.words import finding_lines, log_lines, sample_lines, sample_title
from epochal.tui.view import View
from epochal.tui.vitals import vitals_of

_CHART_ROWS, _FINDINGS, _LOG = 14, 8, 8
_SAMPLE_ROWS = 6


def snapshot(
    state: AppState, view: View, *, columns: int, now: float, glyphs: Glyphs
) -> list[Line]:
    """The chosen run as it is at the Unix time ``now``; as many lines as it takes."""
    if state.run is None:
        return [(Span("No runs here yet."),)]
    return list(_parts(state, view, columns=columns, now=now, glyphs=glyphs))


def _parts(
    state: AppState, view: View, *, columns: int, now: float, glyphs: Glyphs
) -> Iterator[Line]:
    run, run_log = state.run, state.run_log()
    assert run is not None
    assert run_log is not None
    info = run.info
    yield run_line(info, progress_of(run, info, now=now), columns=columns, glyphs=glyphs)
    for problem in filter(None, (info.status.reason, info.problem)):
        yield (Span(f"  {problem}", "bad"),)
    yield EMPTY
    if (metric := state.metric(view.metric)) is not None:
        yield from large_chart(
            state, view, metric, columns=columns, rows=_CHART_ROWS, glyphs=glyphs
        )
        yield EMPTY
    yield from vital_lines(vitals_of(run), columns=columns, glyphs=glyphs)
    machine = gpu_lines(gpus_of(run, run_log.throttles), columns=columns, glyphs=glyphs)
    machine += host_lines(hosts_of(run), columns=columns, glyphs=glyphs)
    findings = finding_lines(run_log.findings, columns=columns, rows=_FINDINGS, glyphs=glyphs)
    log = log_lines(list(run_log.log), columns=columns, rows=_LOG)
    for name, lines in (("Machine", machine), ("Findings", findings), ("Log", log)):
        if lines:
            yield EMPTY
            yield title(name, columns, glyphs=glyphs)
            yield from lines
    if run_log.texts:
        sample = run_log.texts[-1]
        yield EMPTY
        yield title("Sample", columns, glyphs=glyphs, remark=sample_title(sample))
        yield from sample_lines(sample, columns=columns)[:_SAMPLE_ROWS]
