"""The charts: the large one with its title, and all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence

from epochal.store.answers import Metric
from epochal.tui.app_state import AppState
from epochal.tui.cells import Line, Span, beside, block, clip_text, fit, printable, width
from epochal.tui.chart import Curve, Look, draw_chart
from epochal.tui.glyphs import Glyphs
from epochal.tui.panels.runs import first_shown
from epochal.tui.run_log import flagged_steps
from epochal.tui.scale import short_number
from epochal.tui.view import View

_CHART_COLUMNS, _CHART_ROWS = 38, 10


def large_chart(
    state: AppState, view: View, metric: Metric | None, *, columns: int, rows: int, glyphs: Glyphs
) -> list[Line]:
    """One series, with evaluations, findings and the runs it is compared with."""
    if state.run is None or metric is None:
        return block([(Span("nothing to draw yet", "dim"),)], columns=columns, rows=rows)
    curves, kind = state.curves.of(
        state.run, metric, others=state.others(), x=view.x, smoothing=view.smoothing
    )
    run_log = state.run_log()
    flagged = flagged_steps(run_log.findings) if run_log and kind == "step" else ()
    look = Look(kind, view.zoom, view.is_log, view.clips_outliers, flagged)
    heading = _title(metric, curves, columns, glyphs=glyphs)
    drawn = draw_chart(curves, look=look, columns=columns, rows=rows - 1, glyphs=glyphs)
    return [heading, *drawn]


def chart_grid(
    state: AppState, view: View, *, columns: int, rows: int, glyphs: Glyphs
) -> list[Line]:
    """Every series that the filter lets through; only those on the screen are read."""
    metrics = state.metrics(view.metric_filter)
    chosen = state.metric(view.metric)
    if not metrics or chosen is None:
        text = "no series fits" if view.metric_filter else "no series yet"
        return block([(Span(text, "dim"),)], columns=columns, rows=rows)
    across, down = max(1, columns // _CHART_COLUMNS), max(1, rows // _CHART_ROWS)
    each, tall = (columns - across + 1) // across, rows // down
    at = next((i for i, metric in enumerate(metrics) if metric == chosen), 0)
    first = first_shown(at // across, -(-len(metrics) // across), down)
    lines: list[Line] = []
    for row in range(first, first + down):
        cells = [
            _cell(state, view, metric, metric == chosen, columns=each, rows=tall, glyphs=glyphs)
            for metric in metrics[row * across : (row + 1) * across]
        ]
        empty = block([], columns=each, rows=tall)
        lines += beside(*cells, *[empty] * (across - len(cells)), between=Span(" "))
    return block(lines, columns=columns, rows=rows)


def grid_width(columns: int) -> int:
    """How many charts are next to each other."""
    return max(1, columns // _CHART_COLUMNS)


def _cell(
    state: AppState,
    view: View,
    metric: Metric,
    is_chosen: bool,
    *,
    columns: int,
    rows: int,
    glyphs: Glyphs,
) -> list[Line]:
    assert state.run is not None
    curves, kind = state.curves.of(
        state.run, metric, others=state.others(), x=view.x, smoothing=view.smoothing
    )
    look = Look(kind, view.zoom, view.is_log, view.clips_outliers)
    drawn = draw_chart(curves, look=look, columns=columns, rows=rows - 1, glyphs=glyphs)
    last = _last(curves)
    room = columns - len(last) - 3
    name = clip_text(printable(metric.name), room, ellipsis=glyphs.ellipsis)
    mark = Span(f"{glyphs.chosen} " if is_chosen else "  ", "accent")
    heading = (mark, Span(name, "chosen" if is_chosen else "title"), Span(f" {last}", "dim"))
    return [fit(heading, columns), *drawn]


def _title(metric: Metric, curves: Sequence[Curve], columns: int, *, glyphs: Glyphs) -> Line:
    """Name and newest value, then what the colours mean."""
    unit = f" {metric.unit}" if metric.unit else ""
    name = clip_text(printable(metric.name), max(columns // 2, 8), ellipsis=glyphs.ellipsis)
    heading: Line = (Span(name, "title"), Span(f" {_last(curves)}{printable(unit)}", "curve"))
    for curve in curves:
        if curve.style in ("raw", "curve"):
            continue
        glyph = glyphs.mark if curve.shape == "points" else glyphs.legend * 2
        entry = Span(f"  {glyph} {printable(curve.name)}", curve.style)
        if width((*heading, entry)) <= columns:
            heading = (*heading, entry)
    return fit(heading, columns)


def _last(curves: Sequence[Curve]) -> str:
    main = next(curve for curve in curves if curve.style == "curve")
    return short_number(float(main.values[-1])) if main.values.size else ""
