"""All parts on one screen of any size from 40 by 10: what has no room is left out, never cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from epochal.store.answers import RunInfo
from epochal.store.progress import progress_of
from epochal.store.steering import Wish
from epochal.tui.cells import EMPTY, Line, Span, beside, block, clip, fit, printable, spread, width
from epochal.tui.chronicle import Chronicle
from epochal.tui.control import filter_text
from epochal.tui.desk import Desk
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


def compose(desk: Desk, view: View, *, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The whole screen: exactly ``rows`` lines of ``columns`` cells."""
    if columns < _SMALLEST[0] or rows < _SMALLEST[1]:
        needed = f"{_SMALLEST[0]}x{_SMALLEST[1]} or more, please"
        return block([(Span(needed),)], columns=columns, rows=rows)
    top = [
        _run_line(desk, columns, glyphs),
        tab_line(view.tab, columns=columns, right=_modes(view)),
        *_trouble(desk),
        *_tip(desk, view, rows),
    ]
    bottom = _footer(desk, view, columns)
    size = Size(columns, rows - len(top) - 1)
    body = _help(size, glyphs) if view.shows_help else _body(desk, view, size, glyphs)
    drawn = block(body, columns=columns, rows=size.rows)
    return block([*top, *drawn, bottom], columns=columns, rows=rows)


def _run_line(desk: Desk, columns: int, glyphs: Glyphs) -> Line:
    if desk.run is None:
        return (Span("epochal watch", "strong"),)
    info = desk.run.info
    progress = progress_of(desk.run, info, now=time.time())
    return run_line(info, progress, columns=columns, glyphs=glyphs)


def _trouble(desk: Desk) -> list[Line]:
    """Why a run ended, and what of it could not be read."""
    if desk.run is None:
        return []
    info = desk.run.info
    words = [text for text in (info.status.reason, info.problem) if text]
    return [(Span(printable(" ".join(words)), "bad"),)] if words else []


def _tip(desk: Desk, view: View, rows: int) -> list[Line]:
    """What can be done now, where there is room for a line of it."""
    if desk.run is None or rows < _TIP_FROM:
        return []
    text = tip(desk.run.info, view, desk.chronicle())
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


def _footer(desk: Desk, view: View, columns: int) -> Line:
    if view.typing is not None:
        text = filter_text(view, view.typing)
        start = Span(f"filter {view.typing.what}: ", "key")
        note = Span(f"  {desk.problem}", "bad") if desk.problem else Span("")
        return clip((start, Span(text), Span(" ", "chosen"), note), columns)
    if view.asking is not None and desk.run is not None:
        return clip(_question(desk.run.info, view.asking), columns)
    if desk.notice:
        return clip((Span(desk.notice, "accent"),), columns)
    if desk.problem:
        return clip((Span(desk.problem, "bad"),), columns)
    place = f"run {desk.place + 1} of {len(desk.runs):,}" if len(desk.runs) > 1 else ""
    spans: Line = ()
    for hint in hints(view).split("  "):
        *keys, meaning = hint.split(" ")
        more = (Span(" ".join(keys), "key"), Span(f" {meaning}  ", "dim"))
        if width((*spans, *more)) + len(place) < columns:
            spans += more
    return spread(spans, (Span(place, "dim"),), columns)


def _question(info: RunInfo, wish: Wish) -> Line:
    name = printable(f"{info.project}/{info.name}")
    verb = {"stop": "Stop", "suspend": "Suspend", "continue": "Continue"}.get(wish, wish)
    return (
        Span(f"{verb} {name}?", "shout"),
        Span("  y", "key"),
        Span(" yes  "),
        Span("any other key", "key"),
        Span(" no"),
    )


def _body(desk: Desk, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    side = min(max(size.columns // 6, 26), 36)
    has_room = size.columns >= _SIDE_FROM
    shows = has_room if view.shows_runs is None else view.shows_runs
    if shows and not has_room:
        return run_list(
            desk, columns=size.columns, rows=size.rows, glyphs=glyphs, filtered=view.run_filter
        )
    if not shows:
        return _tab(desk, view, size, glyphs)
    listed = run_list(desk, columns=side, rows=size.rows, glyphs=glyphs, filtered=view.run_filter)
    inner = Size(size.columns - side - 3, size.rows)
    return beside(
        block(listed, columns=side, rows=size.rows),
        block(_tab(desk, view, inner, glyphs), columns=inner.columns, rows=inner.rows),
        between=Span(f" {glyphs.wall} ", "dim"),
    )


def _tab(desk: Desk, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    chronicle = desk.chronicle()
    if desk.run is None or chronicle is None:
        return [EMPTY, (Span(_NO_RUN, "dim"),)]
    if view.tab == "overview":
        if size.columns >= _TWO_COLUMNS_FROM:
            return _wide_overview(desk, view, chronicle, size, glyphs)
        return _narrow_overview(desk, view, chronicle, size, glyphs)
    if view.tab == "charts":
        return _charts(desk, view, size, glyphs)
    if view.tab == "system":
        return _scrolled(desk, view, _system(desk, chronicle, size, glyphs), size)
    if view.tab == "log":
        lines, desk.scroll_end = log_window(
            list(chronicle.log), columns=size.columns, rows=size.rows, scroll=view.scroll
        )
        return lines
    if view.tab == "text":
        return _scrolled(desk, view, _texts(chronicle, size, glyphs), size)
    run = desk.run
    lines = config_lines(run.config, run.facts, run.info, columns=size.columns)
    return _scrolled(desk, view, lines, size)


def _charts(desk: Desk, view: View, size: Size, glyphs: Glyphs) -> list[Line]:
    columns, rows = size.columns, size.rows
    if view.is_enlarged:
        metric = desk.metric(view.metric)
        return large_chart(desk, view, metric, columns=columns, rows=rows, glyphs=glyphs)
    return chart_grid(desk, view, columns=columns, rows=rows, glyphs=glyphs)


def _wide_overview(
    desk: Desk, view: View, chronicle: Chronicle, size: Size, glyphs: Glyphs
) -> list[Line]:
    """The chart, findings and log on the left; figures, machine and sample on the right."""
    right = Size(min(max(size.columns * 2 // 5, 40), 56), size.rows)
    left = Size(size.columns - right.columns - 3, size.rows)
    below = min(max(size.rows // 3, 4), 16)
    drawn = large_chart(
        desk,
        view,
        desk.metric(view.metric),
        columns=left.columns,
        rows=max(left.rows - below, _LEAST_CHART),
        glyphs=glyphs,
    )
    words = _words(chronicle, Size(left.columns, left.rows - len(drawn)), glyphs)
    figures = _figures(desk, chronicle, right, glyphs)
    return beside(
        block([*drawn, *words], columns=left.columns, rows=size.rows),
        block(figures, columns=right.columns, rows=size.rows),
        between=Span(f" {glyphs.wall} ", "dim"),
    )


def _figures(desk: Desk, chronicle: Chronicle, size: Size, glyphs: Glyphs) -> list[Line]:
    assert desk.run is not None
    columns = size.columns
    lines = [title("Vital signs", columns, glyphs=glyphs)]
    lines += vital_lines(vitals_of(desk.run), columns=columns, glyphs=glyphs)
    machine = _machine(desk, chronicle, columns, glyphs)
    if machine:
        lines += [EMPTY, title("Machine", columns, glyphs=glyphs), *machine]
    if chronicle.texts and size.rows - len(lines) >= 4:
        sample = chronicle.texts[-1]
        heading = title("Sample", columns, glyphs=glyphs, remark=sample_title(sample))
        lines += [EMPTY, heading, *sample_lines(sample, columns=columns)]
    return lines


def _machine(desk: Desk, chronicle: Chronicle, columns: int, glyphs: Glyphs) -> list[Line]:
    assert desk.run is not None
    gpus = gpus_of(desk.run, chronicle.throttles)
    lines = gpu_lines(gpus[:_MOST_GPUS], columns=columns, glyphs=glyphs)
    if len(gpus) > _MOST_GPUS:
        lines.append((Span(f"and {len(gpus) - _MOST_GPUS} more: see 3 system", "dim"),))
    return lines + host_lines(hosts_of(desk.run)[:2], columns=columns, glyphs=glyphs)


def _words(chronicle: Chronicle, size: Size, glyphs: Glyphs) -> list[Line]:
    """Findings and the end of the log, in the rows there are."""
    lines: list[Line] = []
    findings = chronicle.findings
    if findings and size.rows >= 2:
        num_open = sum(found.is_open for found in findings)
        remark = f"{num_open} open" if num_open else "all ended"
        lines.append(title("Findings", size.columns, glyphs=glyphs, remark=remark))
        rows = max(1, size.rows // 2 - 1)
        lines += finding_lines(findings, columns=size.columns, rows=rows, glyphs=glyphs)
    rest = size.rows - len(lines) - 1
    if rest >= 1 and chronicle.log:
        lines.append(title("Log", size.columns, glyphs=glyphs))
        log = list(chronicle.log)
        lines += log_lines(log, columns=size.columns, rows=rest)
    return lines


def _narrow_overview(
    desk: Desk, view: View, chronicle: Chronicle, size: Size, glyphs: Glyphs
) -> list[Line]:
    """Everything below each other; the chart gets what the figures leave."""
    assert desk.run is not None
    columns = size.columns
    vitals = vitals_of(desk.run)
    is_tall = size.rows >= _LEAST_CHART + len(vitals) + 12
    draw = vital_lines if is_tall or len(vitals) <= _FEW_VITALS else vital_grid
    figures = draw(vitals, columns=columns, glyphs=glyphs)
    machine = _machine(desk, chronicle, columns, glyphs)
    left = size.rows - _LEAST_CHART - len(figures)
    machine = machine[: max(left - 1, 0)]
    left -= len(machine)
    words: list[Line] = []
    if left >= 8:
        words = _words(chronicle, Size(columns, left // 2), glyphs)
    elif left >= 1:
        words = finding_lines(chronicle.findings, columns=columns, rows=1, glyphs=glyphs)
        words += log_lines(list(chronicle.log), columns=columns, rows=min(left, 2) - len(words))
    rows = size.rows - len(figures) - len(machine) - len(words)
    metric = desk.metric(view.metric)
    drawn = large_chart(desk, view, metric, columns=columns, rows=rows, glyphs=glyphs)
    return [*drawn, *figures, *machine, *words]


def _system(desk: Desk, chronicle: Chronicle, size: Size, glyphs: Glyphs) -> list[Line]:
    assert desk.run is not None
    parts = [
        gpu_detail(gpu, columns=size.columns, glyphs=glyphs)
        for gpu in gpus_of(desk.run, chronicle.throttles)
    ]
    parts += [host_detail(host, columns=size.columns, glyphs=glyphs) for host in hosts_of(desk.run)]
    if not parts:
        return [(Span("This run measured no machine.", "dim"),)]
    return [line for part in parts for line in (*part, EMPTY)]


def _texts(chronicle: Chronicle, size: Size, glyphs: Glyphs) -> list[Line]:
    """The samples, the newest first."""
    lines: list[Line] = []
    for sample in reversed(chronicle.texts):
        lines.append(title(sample_title(sample), size.columns, glyphs=glyphs))
        lines += [*sample_lines(sample, columns=size.columns), EMPTY]
    return lines or [(Span("This run logged no text.", "dim"),)]


def _scrolled(desk: Desk, view: View, lines: Sequence[Line], size: Size) -> list[Line]:
    desk.scroll_end = max(len(lines) - size.rows, 0)
    first = min(view.scroll, desk.scroll_end)
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
