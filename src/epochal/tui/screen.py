"""All parts on one screen of any size from 40 by 10: what has no room is left out, never cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from epochal.store.answers import RunInfo
from epochal.store.process_action import ProcessAction
from epochal.store.progress import progress_of
from epochal.tui.app_state import AppState
from epochal.tui.cells import EMPTY, Line, Span, beside, block, clip, fit, printable, spread, width
from epochal.tui.control import filter_text
from epochal.tui.glyphs import Glyphs
from epochal.tui.keys import FILTERS, HELP
from epochal.tui.machine import gpus_of, hosts_of
from epochal.tui.panels.charts import chart_grid, large_chart
from epochal.tui.panels.heading import run_line, tab_line, title
from epochal.tui.panels.machines import gpu_detail, gpu_lines, host_detail, host_lines
from epochal.tui.panels.runs import run_list
from epochal.tui.panels.vital_signs import vital_grid, vital_lines
from epochal.tui.panels.words import (
    config_lines,
    finding_lines,
    log_lines,
    log_window,
    sample_lines,
    sample_title,
)
from epochal.tui.run_log import RunLog
from epochal.tui.tips import hints, tip
from epochal.tui.view import View
from epochal.tui.vitals import vitals_of

_SMALLEST = (40, 10)
_SIDE_FROM, _TWO_COLUMNS_FROM = 130, 84
_LEAST_CHART = 7
_MOST_GPUS = 8
_FEW_VITALS = 3
_TIP_FROM = 20
_NO_RUN = "No runs here yet: they appear by themselves as soon as one is started."


@dataclass(frozen=True, slots=True)
class Size:
    """A rectangle of cells."""

    columns: int
    rows: int


def compose(state: AppState, view: View, *, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The whole screen: exactly ``rows`` lines of ``columns`` cells."""
    if columns < _SMALLEST[0] or rows < _SMALLEST[1]:
        needed = f"{_SMALLEST[0]}x{_SMALLEST[1]} or more, please"
        return block([(Span(needed),)], columns=columns, rows=rows)
    top = [
        _run_line(state, columns, glyphs),
        tab_line(view.tab, columns=columns, right=_modes(view)),
        *_trouble(state),
        *_tip(state, view, rows),
    ]
    bottom = _footer(state, view, columns)
    size = Size(columns, rows - len(top) - 1)
    body = _help(size, glyphs) if view.shows_help else _body(state, view, size, glyphs)
    drawn = block(body, columns=columns, rows=size.rows)
    return block([*top, *drawn, bottom], columns=columns, rows=rows)


def _run_line(state: AppState, columns: int, glyphs: Glyphs) -> Line:
    if state.run is None:
        return (Span("epochal watch", "strong"),)
    info = state.run.info
    progress = progress_of(state.run, info, now=time.time())
    return run_line(info, progress, columns=columns, glyphs=glyphs)


def _trouble(state: AppState) -> list[Line]:
    """Why a run ended, and what of it could not be read."""
    if state.run is None:
        return []
    info = state.run.info
    words = [text for text in (info.status.reason, info.problem) if text]
    return [(Span(printable(" ".join(words)), "bad"),)] if words else []


def _tip(state: AppState, view: View, rows: int) -> list[Line]:
    """What can be done now, where there is room for a line of it."""
    if state.run is None or rows < _TIP_FROM:
        return []
    text = tip(state.run.info, view, state.run_log())
    return [] if text is None else [(Span("tip ", "key"), Span(printable(text), "dim"))]


def _modes(view: View) -> Line:
    """What about the picture is not as usual."""
    modes = [
        (view.is_log, "log"),
        (view.clips_outliers, "no outliers"),
        (view.smoothing > 0, f"smooth {view.smoothing:g}"),
        (not view.zoom.is_whole, f"zoom {1 / view.zoom.share:g}x"),
        (view.x != "step", f"x {view.x}"),
    ]
    spans: Line = tuple(Span(f" {text}", "accent") for is_on, text in modes if is_on)
    return (*spans, Span(" held ", "shout")) if view.is_paused else spans


def _footer(state: AppState, view: View, columns: int) -> Line:
    if view.typing is not None:
        text = filter_text(view, view.typing)
        start = Span(f"filter {view.typing.what}: ", "key")
        note = Span(f"  {state.problem}", "bad") if state.problem else Span("")
        return clip((start, Span(text), Span(" ", "chosen"), note), columns)
    if view.asking is not None and state.run is not None:
        return clip(_question(state.run.info, view.asking), columns)
    if state.notice:
        return clip((Span(state.notice, "accent"),), columns)
    if state.problem:
        return clip((Span(state.problem, "bad"),), columns)
    place = f"run {state.place + 1} of {len(state.runs):,}" if len(state.runs) > 1 else ""
    spans: Line = ()
    for hint in hints(view).split("  "):
        *keys, meaning = hint.split(" ")
        more = (Span(" ".join(keys), "key"), Span(f" {meaning}  ", "dim"))
        if width((*spans, *more)) + len(place) < columns:
            spans += more
    return spread(spans, (Span(place, "dim"),), columns)


def _question(info: RunInfo, wish: ProcessAction) -> Line:
    name = printable(f"{info.project}/{info.name}")
    verb = {"stop": "Stop", "suspend": "Suspend", "continue": "Continue"}.get(wish, wish)
    return (
        Span(f"{verb} {name}?", "shout"),
        Span("  y", "key"),
        Span(" yes  "),
        Span("any other key", "key"),
        Span(" no"),
    )


def _body(state: AppState, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    side = min(max(size.columns // 6, 26), 36)
    has_room = size.columns >= _SIDE_FROM
    shows = has_room if view.shows_runs is None else view.shows_runs
    if shows and not has_room:
        return run_list(
            state, columns=size.columns, rows=size.rows, glyphs=glyphs, filtered=view.run_filter
        )
    if not shows:
        return _tab(state, view, size, glyphs)
    listed = run_list(state, columns=side, rows=size.rows, glyphs=glyphs, filtered=view.run_filter)
    inner = Size(size.columns - side - 3, size.rows)
    return beside(
        block(listed, columns=side, rows=size.rows),
        block(_tab(state, view, inner, glyphs), columns=inner.columns, rows=inner.rows),
        between=Span(f" {glyphs.wall} ", "dim"),
    )


def _tab(state: AppState, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    run_log = state.run_log()
    if state.run is None or run_log is None:
        return [EMPTY, (Span(_NO_RUN, "dim"),)]
    if view.tab == "overview":
        if size.columns >= _TWO_COLUMNS_FROM:
            return _wide_overview(state, view, run_log, size, glyphs)
        return _narrow_overview(state, view, run_log, size, glyphs)
    if view.tab == "charts":
        return _charts(state, view, size, glyphs)
    if view.tab == "system":
        return _scrolled(state, view, _system(state, run_log, size, glyphs), size)
    if view.tab == "log":
        lines, state.scroll_end = log_window(
            list(run_log.log), columns=size.columns, rows=size.rows, scroll=view.scroll
        )
        return lines
    if view.tab == "text":
        return _scrolled(state, view, _texts(run_log, size, glyphs), size)
    run = state.run
    lines = config_lines(run.config, run.facts, run.info, columns=size.columns)
    return _scrolled(state, view, lines, size)


def _charts(state: AppState, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    columns, rows = size.columns, size.rows
    if view.is_enlarged:
        metric = state.metric(view.metric)
        return large_chart(state, view, metric, columns=columns, rows=rows, glyphs=glyphs)
    return chart_grid(state, view, columns=columns, rows=rows, glyphs=glyphs)


def _wide_overview(
    state: AppState, view: View, run_log: RunLog, size: Size, glyphs: Glyphs
) -> list[Line]:
    """The chart, findings and log on the left; figures, machine and sample on the right."""
    right = Size(min(max(size.columns * 2 // 5, 40), 56), size.rows)
    left = Size(size.columns - right.columns - 3, size.rows)
    below = min(max(size.rows // 3, 4), 16)
    drawn = large_chart(
        state,
        view,
        state.metric(view.metric),
        columns=left.columns,
        rows=max(left.rows - below, _LEAST_CHART),
        glyphs=glyphs,
    )
    words = _words(run_log, Size(left.columns, left.rows - len(drawn)), glyphs)
    figures = _figures(state, run_log, right, glyphs)
    return beside(
        block([*drawn, *words], columns=left.columns, rows=size.rows),
        block(figures, columns=right.columns, rows=size.rows),
        between=Span(f" {glyphs.wall} ", "dim"),
    )


def _figures(state: AppState, run_log: RunLog, size: Size, glyphs: Glyphs) -> list[Line]:
    assert state.run is not None
    columns = size.columns
    lines = [title("Vital signs", columns, glyphs=glyphs)]
    lines += vital_lines(vitals_of(state.run), columns=columns, glyphs=glyphs)
    machine = _machine(state, run_log, columns, glyphs)
    if machine:
        lines += [EMPTY, title("Machine", columns, glyphs=glyphs), *machine]
    if run_log.texts and size.rows - len(lines) >= 4:
        sample = run_log.texts[-1]
        heading = title("Sample", columns, glyphs=glyphs, remark=sample_title(sample))
        lines += [EMPTY, heading, *sample_lines(sample, columns=columns)]
    return lines


def _machine(state: AppState, run_log: RunLog, columns: int, glyphs: Glyphs) -> list[Line]:
    assert state.run is not None
    gpus = gpus_of(state.run, run_log.throttles)
    lines = gpu_lines(gpus[:_MOST_GPUS], columns=columns, glyphs=glyphs)
    if len(gpus) > _MOST_GPUS:
        lines.append((Span(f"and {len(gpus) - _MOST_GPUS} more: see 3 system", "dim"),))
    return lines + host_lines(hosts_of(state.run)[:2], columns=columns, glyphs=glyphs)


def _words(run_log: RunLog, size: Size, glyphs: Glyphs) -> list[Line]:
    """Findings and the end of the log, in the rows there are."""
    lines: list[Line] = []
    findings = run_log.findings
    if findings and size.rows >= 2:
        num_open = sum(found.is_open for found in findings)
        remark = f"{num_open} open" if num_open else "all ended"
        lines.append(title("Findings", size.columns, glyphs=glyphs, remark=remark))
        rows = max(1, size.rows // 2 - 1)
        lines += finding_lines(findings, columns=size.columns, rows=rows, glyphs=glyphs)
    rest = size.rows - len(lines) - 1
    if rest >= 1 and run_log.log:
        lines.append(title("Log", size.columns, glyphs=glyphs))
        log = list(run_log.log)
        lines += log_lines(log, columns=size.columns, rows=rest)
    return lines


def _narrow_overview(
    state: AppState, view: View, run_log: RunLog, size: Size, glyphs: Glyphs
) -> list[Line]:
    """Everything below each other; the chart gets what the figures leave."""
    assert state.run is not None
    columns = size.columns
    vitals = vitals_of(state.run)
    is_tall = size.rows >= _LEAST_CHART + len(vitals) + 12
    draw = vital_lines if is_tall or len(vitals) <= _FEW_VITALS else vital_grid
    figures = draw(vitals, columns=columns, glyphs=glyphs)
    machine = _machine(state, run_log, columns, glyphs)
    left = size.rows - _LEAST_CHART - len(figures)
    machine = machine[: max(left - 1, 0)]
    left -= len(machine)
    words: list[Line] = []
    if left >= 8:
        words = _words(run_log, Size(columns, left // 2), glyphs)
    elif left >= 1:
        words = finding_lines(run_log.findings, columns=columns, rows=1, glyphs=glyphs)
        words += log_lines(list(run_log.log), columns=columns, rows=min(left, 2) - len(words))
    rows = size.rows - len(figures) - len(machine) - len(words)
    metric = state.metric(view.metric)
    drawn = large_chart(state, view, metric, columns=columns, rows=rows, glyphs=glyphs)
    return [*drawn, *figures, *machine, *words]


def _system(state: AppState, run_log: RunLog, size: Size, glyphs: Glyphs) -> list[Line]:
    assert state.run is not None
    parts = [
        gpu_detail(gpu, columns=size.columns, glyphs=glyphs)
        for gpu in gpus_of(state.run, run_log.throttles)
    ]
    parts += [
        host_detail(host, columns=size.columns, glyphs=glyphs) for host in hosts_of(state.run)
    ]
    if not parts:
        return [(Span("This run measured no machine.", "dim"),)]
    return [line for part in parts for line in (*part, EMPTY)]


def _texts(run_log: RunLog, size: Size, glyphs: Glyphs) -> list[Line]:
    """The samples, the newest first."""
    lines: list[Line] = []
    for sample in reversed(run_log.texts):
        lines.append(title(sample_title(sample), size.columns, glyphs=glyphs))
        lines += [*sample_lines(sample, columns=size.columns), EMPTY]
    return lines or [(Span("This run logged no text.", "dim"),)]


def _scrolled(state: AppState, view: View, lines: Sequence[Line], size: Size) -> list[Line]:
    state.scroll_end = max(len(lines) - size.rows, 0)
    first = min(view.scroll, state.scroll_end)
    return list(lines[first : first + size.rows])


def _help(size: Size, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    keys = max(len(one) for _, one, _ in HELP)
    has_titles = size.rows >= len(HELP) + 6
    part = ""
    for name, key, meaning in HELP:
        if has_titles and name != part:
            lines += [EMPTY] if part else []
            lines.append(title(name, size.columns, glyphs=glyphs))
            part = name
        lines.append(fit((Span(f"{key:<{keys}}  ", "key"), Span(meaning)), size.columns))
    if len(lines) + len(FILTERS) < size.rows:
        lines += [EMPTY, *((Span(text, "dim"),) for text in FILTERS)]
    return lines
