"""The vital signs as lines: a figure, its direction, its recent course, a remark."""

from __future__ import annotations

from collections.abc import Sequence

from epochal.tui.cells import Line, Span, clip_text, fit, printable, width
from epochal.tui.glyphs import Glyphs
from epochal.tui.spark import sparkline
from epochal.tui.vitals import Vital

_LABEL, _FIGURE = 9, 9
_LONGEST_SPARK, _SHORTEST_SPARK = 40, 4


def vital_lines(vitals: Sequence[Vital], *, columns: int, glyphs: Glyphs) -> list[Line]:
    """One line for each."""
    longest = max((len(vital.label) for vital in vitals), default=0)
    label = max(min(longest, columns // 3), min(_LABEL, longest))
    return [_vital_line(vital, label, columns=columns, glyphs=glyphs) for vital in vitals]


def vital_grid(vitals: Sequence[Vital], *, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two next to each other, for little room; remarks where the recent course would be."""
    half = (columns - 2) // 2
    cells = [fit(one, half) for one in vital_lines(vitals, columns=half, glyphs=glyphs)]
    pairs = [cells[at : at + 2] for at in range(0, len(cells), 2)]
    return [(*pair[0], Span("  "), *(pair[1] if len(pair) > 1 else ())) for pair in pairs]


def _vital_line(vital: Vital, label: int, *, columns: int, glyphs: Glyphs) -> Line:
    arrow = {-1: glyphs.down, 0: glyphs.level, 1: glyphs.up}.get(vital.trend or 0, " ")
    style = "dim" if not vital.trend else "good" if vital.trend_is_good else "bad"
    name = clip_text(printable(vital.label), label, ellipsis=glyphs.ellipsis)
    line: Line = (
        Span(f"{name:<{label}} ", "dim"),
        Span(f"{arrow if vital.trend is not None else ' '} ", style),
        Span(f"{vital.text:<{_FIGURE}} ", vital.style),
    )
    room = columns - width(line)
    remark = next((one for one in (vital.remark, vital.brief) if len(one) <= room), "")
    spark = room - len(remark) - (1 if remark else 0)
    if spark >= _SHORTEST_SPARK:
        spark = min(spark, _LONGEST_SPARK)
        drawn = sparkline(vital.values, spark, glyphs=glyphs)
        line = (*line, Span(f"{drawn:<{spark}}", "accent"), *((Span(" "),) if remark else ()))
    return fit((*line, Span(remark, vital.remark_style)), columns)
