"""The vital signs of a run: the few figures that tell at a glance how a training goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.format import format_count, format_duration
from epochal.series.overfit import gap_grade, gap_percent
from epochal.series.series import Series
from epochal.series.window import LossTrend
from epochal.store.answers import Metric
from epochal.store.store import RunView
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip_text, fit
from epochal.tui.scale import short_number
from epochal.tui.spark import sparkline

_LOOKED_BACK = 150
_LEAST_FOR_A_TREND = 3
_SOL = "train/sol"
_DURATION = "train/duration_ms"
_MACHINE = ("gpu/", "system/", "memory/", "resources/", "abs_max/")
_MOST_OTHERS = 8
_LABEL, _FIGURE = 9, 9
_LONGEST_SPARK, _SHORTEST_SPARK = 40, 4


@dataclass(frozen=True, slots=True, eq=False)
class Vital:
    """One figure: its text, the recent course behind it, a remark and how that is to be taken.

    ``brief`` is the remark where there is little room; ``trend`` the direction of the values, -1, 0
    or 1, None where it is not told.
    """

    label: str
    text: str
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    style: str = ""
    remark: str = ""
    remark_style: str = "dim"
    brief: str = ""
    trend: int | None = None
    trend_is_good: bool | None = None


def vitals_of(run: RunView) -> list[Vital]:
    """The vital signs that a run has: by role first, then its first other metrics."""
    roles = {metric.role: metric for metric in run.metrics() if metric.role and metric.ranks}
    found = [*_by_role(run, roles)]
    if len(found) < 3:
        shown = {metric.name for metric in roles.values()}
        found += _others(run, shown)
    return found


def vital_lines(vitals: Sequence[Vital], *, columns: int, glyphs: Glyphs) -> list[Text]:
    """One line for each: the figure, its direction, its recent values, a remark."""
    longest = max((len(vital.label) for vital in vitals), default=0)
    label = max(min(longest, columns // 3), min(_LABEL, longest))
    return [_vital_line(vital, label, columns=columns, glyphs=glyphs) for vital in vitals]


def vital_grid(vitals: Sequence[Vital], *, columns: int, glyphs: Glyphs) -> list[Text]:
    """Two next to each other, for little room; remarks where the recent values would be."""
    cells = vital_lines(vitals, columns=(columns - 2) // 2, glyphs=glyphs)
    return [Text("  ").join(cells[at : at + 2]) for at in range(0, len(cells), 2)]


def overfit_gap(train: Series, evaluated: Series) -> float | None:
    """By how many percent the newest evaluation is above the training loss since the one before.

    None where the two cannot be held against each other.
    """
    if train.axis != evaluated.axis or not len(train) or not len(evaluated):
        return None
    until = int(np.searchsorted(train.steps, evaluated.steps[-1], side="right"))
    since = 0
    if len(evaluated) > 1:
        since = int(np.searchsorted(train.steps, evaluated.steps[-2], side="right"))
    values = train.floats[min(since, max(until - 1, 0)) : until]
    values = values[np.isfinite(values)]
    return gap_percent(float(evaluated.values[-1]), float(values.mean())) if values.size else None


def _by_role(run: RunView, roles: Mapping[str, Metric]) -> Iterator[Vital]:
    series = {role: _series(run, metric) for role, metric in roles.items()}
    loss, evaluated = series.get("loss"), series.get("eval_loss")
    if loss is not None:
        yield _figure("loss", loss, remark=_best(loss))
    if evaluated is not None:
        gap = None if loss is None else overfit_gap(loss, evaluated)
        if gap is None:
            yield _figure("eval loss", evaluated, remark=_best(evaluated))
        else:
            remark = f"gap {gap:+.1f} %"
            figure = _figure("eval loss", evaluated, remark=remark, remark_style=gap_grade(gap))
            yield replace(figure, brief=f"{gap:+.1f} %")
    for role, label in (("lr", "lr"), ("norm", "grad norm")):
        if (found := series.get(role)) is not None:
            yield _figure(label, found)
    if (speed := series.get("throughput")) is not None:
        yield _figure("tok/s", speed, text=format_count(_last(speed)), tells_trend=False)
    names = {metric.name: metric for metric in run.metrics() if 0 in metric.ranks}
    if _SOL in names:
        sol = _series(run, names[_SOL])
        yield _figure("SOL", sol, text=f"{_last(sol):.1f} %")
    if _DURATION in names:
        taken = _series(run, names[_DURATION])
        yield _figure("step time", taken, text=format_duration(_last(taken) / 1000))


def _others(run: RunView, shown: set[str]) -> list[Vital]:
    names = [
        metric
        for metric in run.metrics()
        if metric.name not in shown and metric.ranks and not metric.name.startswith(_MACHINE)
    ]
    return [
        _figure(m.name, s, remark=_best(s)) for m in names[:_MOST_OTHERS] if (s := _series(run, m))
    ]


def _vital_line(vital: Vital, label: int, *, columns: int, glyphs: Glyphs) -> Text:
    arrow = {-1: glyphs.down, 0: glyphs.level, 1: glyphs.up}.get(vital.trend or 0, " ")
    style = "dim" if not vital.trend else "good" if vital.trend_is_good else "bad"
    line = Text.assemble(
        (f"{clip_text(vital.label, label):<{label}} ", "dim"),
        (f"{arrow if vital.trend is not None else ' '} ", style),
        (f"{vital.text:<{_FIGURE}} ", vital.style),
    )
    room = columns - line.cell_len
    remark = next((one for one in (vital.remark, vital.brief) if len(one) <= room), "")
    spark = min(room - len(remark) - (1 if remark else 0), _LONGEST_SPARK)
    if spark >= _SHORTEST_SPARK:
        drawn = sparkline(vital.values, spark, glyphs=glyphs)
        line.append(f"{drawn:<{spark}}", "accent").append(" " if remark else "")
    return fit(line.append(remark, vital.remark_style), columns)


def _figure(
    label: str,
    series: Series,
    *,
    text: str | None = None,
    remark: str = "",
    remark_style: str = "dim",
    tells_trend: bool = True,
) -> Vital:
    last = _last(series)
    is_finite = math.isfinite(last)
    trend = _trend(series) if tells_trend and series.goal is not None else None
    return Vital(
        label=label,
        text=short_number(last) if text is None or not is_finite else text,
        values=series.floats,
        style="strong" if is_finite else "shout",
        remark=remark,
        remark_style=remark_style,
        trend=trend,
        trend_is_good=None if not trend else (trend < 0) == (series.goal == "min"),
    )


def _trend(series: Series) -> int | None:
    if len(series) < _LEAST_FOR_A_TREND:
        return None
    marks = {"\\": -1, "/": 1}
    trend, mark = LossTrend(), " "
    for value in series.floats[-_LOOKED_BACK:].tolist():
        mark = trend.observe(value)
    return marks.get(mark, 0)


def _best(series: Series) -> str:
    best = series.best
    return "" if best is None else f"best {short_number(best[1])} @ {best[0]:,.0f}"


def _last(series: Series) -> float:
    return float(series.values[-1]) if len(series) else math.nan


def _series(run: RunView, metric: Metric) -> Series:
    return run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
