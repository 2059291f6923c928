"""Charts of a run's series: one large chart with its title, and all charts in a grid."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from epochal.store.answers import Metric
from epochal.tui.app_state import AppState
from epochal.tui.chart import Curve, Look, draw_chart
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip_text, fit, printable
from epochal.tui.run_log import flagged_steps
from epochal.tui.scale import short_number
from epochal.tui.view import View

_CHART_COLUMNS, _CHART_ROWS = 38, 10


def large_chart(
    state: AppState, view: View, *, columns: int, rows: int, glyphs: Glyphs
) -> list[Text]:
    """The chosen series, with evaluations, findings and the runs it is compared with."""
    metric = state.metric(view.metric)
    if state.run is None or metric is None:
        return [Text.assemble(("nothing to draw yet", "dim"))]
    curves, kind = state.curves.of(
        state.run, metric, compared=state.compared_styles(), x=view.x, smoothing=view.smoothing
    )
    run_log = state.run_log()
    flagged = flagged_steps(run_log.findings) if run_log and kind == "step" else ()
    look = Look(kind, view.zoom, view.is_log, view.clips_outliers, flagged)
    drawn = draw_chart(curves, look=look, columns=columns, rows=rows - 1, glyphs=glyphs)
    return [_title(metric, curves, columns, glyphs=glyphs), *drawn]


def chart_grid(
    state: AppState, view: View, *, columns: int, rows: int, glyphs: Glyphs
) -> list[Text]:
    """Every series that the filter selects; only the series on the screen are read."""
    metrics = state.metrics(view.metric_filter)
    chosen = state.metric(view.metric)
    if not metrics or chosen is None:
        text = "no series fits" if view.metric_filter else "no series yet"
        return [Text.assemble((text, "dim"))]
    across, down = max(1, columns // _CHART_COLUMNS), max(1, rows // _CHART_ROWS)
    each, tall = (columns - across + 1) // across, rows // down
    at = metrics.index(chosen) // across if chosen in metrics else 0
    first = max(0, min(at - down // 2, -(-len(metrics) // across) - down))
    lines: list[Text] = []
    for row in range(first, first + down):
        cells = [
            _cell(state, view, metric, metric == chosen, columns=each, rows=tall, glyphs=glyphs)
            for metric in metrics[row * across : (row + 1) * across]
        ]
        lines += [Text(" ").join(parts) for parts in zip(*cells, strict=True)]
    return lines


def _cell(
    state: AppState,
    view: View,
    metric: Metric,
    is_chosen: bool,
    *,
    columns: int,
    rows: int,
    glyphs: Glyphs,
) -> list[Text]:
    assert state.run is not None
    curves, kind = state.curves.of(
        state.run, metric, compared=state.compared_styles(), x=view.x, smoothing=view.smoothing
    )
    look = Look(kind, view.zoom, view.is_log, view.clips_outliers)
    drawn = draw_chart(curves, look=look, columns=columns, rows=rows - 1, glyphs=glyphs)
    last = _last(curves)
    title = Text.assemble(
        (f"{glyphs.chosen} " if is_chosen else "  ", "accent"),
        (clip_text(metric.name, columns - len(last) - 3), "chosen" if is_chosen else "title"),
        (f" {last}", "dim"),
    )
    return [fit(title, columns), *drawn]


def _title(metric: Metric, curves: Sequence[Curve], columns: int, *, glyphs: Glyphs) -> Text:
    """Name and newest value, then what the colours mean."""
    unit = f" {printable(metric.unit)}" if metric.unit else ""
    title = Text.assemble(
        (clip_text(metric.name, max(columns // 2, 8)), "title"),
        (f" {_last(curves)}{unit}", "curve"),
    )
    for curve in curves:
        if curve.style in ("raw", "curve"):
            continue
        glyph = glyphs.mark if curve.shape == "points" else glyphs.legend * 2
        entry = Text.assemble((f"  {glyph} {printable(curve.name)}", curve.style))
        if title.cell_len + entry.cell_len <= columns:
            title.append_text(entry)
    return fit(title, columns)


def _last(curves: Sequence[Curve]) -> str:
    # Behind a smoothed curve there are the values themselves.
    by_style = {curve.style: curve for curve in curves}
    main = by_style.get("raw") or by_style["curve"]
    return short_number(float(main.values[-1])) if main.values.size else ""
