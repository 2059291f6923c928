"""The vital signs and the findings of a run: what tells at a glance how a training goes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.cli.tui.text import clip, printable, short_number, sparkline
from epochal.health.finding import SEVERITIES, Finding
from epochal.journal.metrics import Metric
from epochal.records.format import format_count, format_duration
from epochal.series.importance import Importance
from epochal.series.series import Series
from epochal.series.trend import gap_grade, gap_percent
from epochal.series.window import LossTrend
from epochal.store.metrics import by_importance
from epochal.store.row import latest_findings
from epochal.store.run import RunView

_TREND_POINTS, _LEAST_FOR_A_TREND = 150, 3
_FEW, _MOST_OTHERS = 3, 8
_SOL, _STEP_TIME = "train/sol", "train/duration_ms"
_VALUE_COLUMNS = 9
_LONGEST_SPARK, _SHORTEST_SPARK = 40, 4


@dataclass(frozen=True, slots=True, eq=False)
class Vital:
    """The newest value of a metric, its points, a remark, and the style of each.

    ``trend`` is the direction of the values, -1, 0 or 1; None where no direction is better.
    """

    label: str
    text: str
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    style: str = ""
    remark: str = ""
    remark_style: str = "dim"
    trend: int | None = None
    trend_is_good: bool = False


def vitals_of(run: RunView) -> list[Vital]:
    """The vital signs that a run has, the most important first.

    They are metrics with a declared goal or a role; if there are few, other ones as well.
    """
    metrics = by_importance(metric for metric in run.metrics() if metric.ranks)
    roles = {metric.role: metric for metric in reversed(metrics) if metric.role}
    signs = [*_by_role(run, roles)]
    others = [
        one
        for one in metrics
        if one.role is None and not one.importance.is_detail and one.name not in (_SOL, _STEP_TIME)
    ]
    num_goals = sum(one.importance is Importance.GOAL for one in others)
    for one in others[: min(_MOST_OTHERS, num_goals if len(signs) >= _FEW else len(others))]:
        series = run.series(one.name, rank=one.ranks[0], axis=one.axis)
        if len(series):
            signs.append((one.importance, _vital(one.name, series, remark=_best(series))))
    return [vital for _, vital in sorted(signs, key=lambda sign: sign[0])]


def vital_lines(vitals: Sequence[Vital], *, columns: int) -> list[Text]:
    """One line for each: value, direction, recent points, remark."""
    longest = max((len(vital.label) for vital in vitals), default=0)
    return [_vital_line(vital, min(longest, columns // 3), columns) for vital in vitals]


def overfit_gap(train: Series, evaluated: Series) -> float | None:
    """By how many percent the newest evaluation is above the training loss since the one before.

    None where the two cannot be compared.
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


def findings_of(run: RunView) -> list[Finding]:
    """The findings that were recorded: open ones first, the most severe first, newest first."""
    entries = run.entries("finding", rank=None)
    told = [(entry.position.attempt, entry.record) for entry in entries]
    return sorted(
        latest_findings(told, attempts=run.info.attempts),
        key=lambda one: (one.state != "open", -SEVERITIES.index(one.severity), -one.t),
    )


def finding_lines(findings: Sequence[Finding], *, columns: int, rows: int) -> list[Text]:
    """Sentence and advice of each finding; sentences alone where there are few rows."""
    lines = [line for one in findings for line in _finding_lines(one, columns)]
    if len(lines) <= rows:
        return lines
    lines = [
        Text(clip(f"{_mark(one)} {one.sentence}", columns), _finding_style(one))
        for one in findings[:rows]
    ]
    if lines and len(findings) > rows:
        more = f" +{len(findings) - rows} more"
        lines[-1].truncate(columns - len(more), overflow="ellipsis")
        lines[-1].append(more, "dim")
    return lines


def _by_role(run: RunView, roles: Mapping[str, Metric]) -> Iterator[tuple[Importance, Vital]]:
    series = {
        role: run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
        for role, metric in roles.items()
    }
    loss = series.get("loss")
    for role, found in series.items():
        gap = None if role != "eval_loss" or loss is None else overfit_gap(loss, found)
        if gap is not None:
            remark = f"gap {gap:+.1f} %"
            vital = _vital("eval loss", found, remark=remark, remark_style=gap_grade(gap))
        elif role in ("loss", "eval_loss"):
            vital = _vital(role.replace("_", " "), found, remark=_best(found))
        elif role == "throughput":
            vital = _vital("tok/s", found, text=format_count(_last(found)), has_trend=False)
        else:
            vital = _vital("grad norm" if role == "norm" else role, found)
        yield roles[role].importance, vital
    names = {metric.name for metric in run.metrics() if 0 in metric.ranks}
    if _SOL in names:
        sol = run.series(_SOL)
        yield Importance.TIMING, _vital("SOL", sol, text=f"{_last(sol):.1f} %")
    if _STEP_TIME in names:
        duration = run.series(_STEP_TIME)
        text = format_duration(_last(duration) / 1000)
        yield Importance.TIMING, _vital("step time", duration, text=text)


def _vital_line(vital: Vital, label_columns: int, columns: int) -> Text:
    arrow, style = " ", ""
    if vital.trend is not None:
        arrow = {-1: "↘", 0: "→", 1: "↗"}[vital.trend]
        style = "dim" if not vital.trend else "good" if vital.trend_is_good else "bad"
    line = Text.assemble(
        (f"{clip(vital.label, label_columns):<{label_columns}} ", "dim"),
        (f"{arrow} ", style),
        (f"{vital.text:<{_VALUE_COLUMNS}} ", vital.style),
    )
    room = columns - line.cell_len
    remark = vital.remark if len(vital.remark) <= room else ""
    spark = min(room - len(remark) - 1, _LONGEST_SPARK)
    if spark >= _SHORTEST_SPARK:
        line.append(f"{sparkline(vital.values, spark):<{spark}} ", "accent")
    return line.append(remark, vital.remark_style)


def _vital(
    label: str,
    series: Series,
    *,
    text: str | None = None,
    remark: str = "",
    remark_style: str = "dim",
    has_trend: bool = True,
) -> Vital:
    last = _last(series)
    is_finite = math.isfinite(last)
    trend = _trend(series) if has_trend and series.goal is not None else None
    return Vital(
        label,
        short_number(last) if text is None or not is_finite else text,
        series.floats,
        "strong" if is_finite else "shout",
        remark,
        remark_style,
        trend,
        trend_is_good=bool(trend) and (trend == -1) == (series.goal == "min"),
    )


def _trend(series: Series) -> int | None:
    if len(series) < _LEAST_FOR_A_TREND:
        return None
    trend, mark = LossTrend(), " "
    for value in series.floats[-_TREND_POINTS:].tolist():
        mark = trend.observe(value)
    return {"\\": -1, "/": 1}.get(mark, 0)


def _best(series: Series) -> str:
    best = series.best
    return "" if best is None else f"best {short_number(best[1])} @ {best[0]:,.0f}"


def _last(series: Series) -> float:
    return float(series.values[-1]) if len(series) else math.nan


def _finding_lines(finding: Finding, columns: int) -> Iterator[Text]:
    width, style = max(columns - 2, 8), _finding_style(finding)
    for index, text in enumerate(textwrap.wrap(printable(finding.sentence), width)):
        yield Text(f"{' ' if index else _mark(finding)} {text}", style)
    if finding.state == "open":
        for text in textwrap.wrap(printable(finding.advice), width):
            yield Text(f"  {text}", "dim")


def _mark(finding: Finding) -> str:
    return "▲" if finding.state == "open" else "○"


def _finding_style(finding: Finding) -> str:
    styles = {"error": "bad", "warning": "warn", "info": "accent"}
    return styles[finding.severity] if finding.state == "open" else "dim"
