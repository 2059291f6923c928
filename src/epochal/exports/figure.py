"""Figures for papers, drawn by matplotlib: one line per run, or the mean of groups with a band.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
The size suits one column of a paper, or both columns if there are several panels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from epochal.compare.groups import common_axis, group_members, members_of, series_or_none
from epochal.errors import MissingPackageError, UsageError
from epochal.series.downsample import buckets
from epochal.series.series import X
from epochal.series.smooth import Smoothing
from epochal.store.metrics import no_metric
from epochal.store.run import RunView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# When the colours are used up, they start again with another dash pattern.
_DASHES = ("-", "--", ":", "-.")
_STYLE = {
    "pdf.fonttype": 42,  # embeds TrueType fonts, as publishers require
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "savefig.dpi": 300,
}
# Inches; 3.4 is the width of a column of most two-column papers.
_PANEL_WIDTH, _PANEL_HEIGHT, _LEGEND_ROW = 3.4, 2.3, 0.15
_FEW_RUNS = 3  # of fewer the band is their range
_MOST_INSIDE = 5  # a longer legend is put below the panels
_LETTERS_PER_INCH = 15
_MAX_POINTS = 1000
_LONGEST_NAME = 40

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line of a panel; ``raw`` are its values before smoothing, ``band`` low and high."""

    label: str
    x: Floats
    y: Floats
    raw: tuple[Floats, Floats] | None = None
    band: tuple[Floats, Floats] | None = None


@dataclass(slots=True, eq=False)
class Panel:
    """The lines of one metric, by the place of their run or group in the legend."""

    metric: str
    axis: str
    lines: dict[int, Line] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_panel(
    runs: Sequence[RunView],
    metric: str,
    *,
    group_by: Sequence[str] | None = None,
    smoothing: Smoothing | None = None,
    unfinished: bool = False,
) -> Panel:
    """Read the lines of a metric: one per run, or one per group with the 95 % interval of its mean.

    Raises ``MetricNotFoundError`` where no run has the metric.
    """
    metrics = [found for run in runs if (found := run.metric(metric)) is not None and found.ranks]
    if not metrics:
        raise no_metric(metric, *((run.info.name, run.metrics()) for run in runs))
    axes = {found.x or "step" for found in metrics}
    x = axes.pop() if len(axes) == 1 else "step"  # the axis that all runs define for the metric
    if group_by is None:
        return _panel_of_runs(runs, metric, x, smoothing)
    groups = group_members(members_of(runs), by=group_by, unfinished=unfinished)
    smooth = None if smoothing is None else str(smoothing)
    series = groups.series(metric, x=x, points=_MAX_POINTS, smooth=smooth)
    panel = Panel(metric, series[0].x)
    for index, one in enumerate(series):
        numbers = one.numbers
        if len(numbers):
            label = f"{one.group.label} (n={len(one.group.members) - one.missing})"
            # The confidence interval of two runs is wider than any chart.
            is_few = numbers.n < _FEW_RUNS
            low = np.where(is_few, numbers.min, numbers.low)
            high = np.where(is_few, numbers.max, numbers.high)
            panel.lines[index] = Line(label, numbers.at, numbers.mean, band=(low, high))
    if series[0].unfinished.sentence:
        panel.remarks.append(series[0].unfinished.sentence)
    return panel


def write_figure(panels: Sequence[Panel], out: BinaryIO, *, file_type: str, is_log: bool) -> None:
    """Draw the panels side by side and write them as one of ``FORMATS``."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingPackageError("epochal figure", error, extra="figures") from error
    if is_log:
        for panel in panels:
            if not any((line.y > 0).any() for line in panel.lines.values()):
                raise UsageError(f"--log needs positive values, and {panel.metric} has none.")
    with rc_context(_STYLE):
        labels = {index: line.label for panel in panels for index, line in panel.lines.items()}
        is_inside = len(panels) == 1 and len(labels) <= _MOST_INSIDE
        columns, rows = min(len(panels), 2), math.ceil(len(panels) / 2)
        width = columns * _PANEL_WIDTH
        longest = max(map(len, labels.values())) + 5  # the sample of the line
        legend_columns = max(1, min(len(labels), int(width * _LETTERS_PER_INCH / longest)))
        legend_rows = 0 if is_inside else math.ceil(len(labels) / legend_columns)
        height = rows * _PANEL_HEIGHT + legend_rows * _LEGEND_ROW
        figure = Figure(figsize=(width, height), layout="constrained")
        all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(all_axes, panels, strict=False):
            _draw(axes, panel, is_log=is_log)
        for axes in all_axes[len(panels) :]:
            axes.set_visible(False)
        if is_inside:
            if len(labels) > 1 or panels[0].lines[next(iter(labels))].band is not None:
                all_axes[0].legend()
        else:
            _draw_legend(figure, all_axes, labels, legend_columns)
        figure.savefig(out, format=file_type)


def _panel_of_runs(
    runs: Sequence[RunView], metric: str, x: X, smoothing: Smoothing | None
) -> Panel:
    series = [series_or_none(run, metric, x) for run in runs]
    axis = common_axis(series, x)
    panel = Panel(metric, axis)
    left_out = []
    for index, (name, one) in enumerate(zip(_names(runs), series, strict=True)):
        if one is None or one.x != axis or not len(one):
            left_out.append(name)
        elif smoothing is None:
            panel.lines[index] = Line(name, *_thinned(one.at, one.floats))
        else:
            smoothed = _thinned(one.at, one.smoothed(smoothing).floats)
            panel.lines[index] = Line(name, *smoothed, raw=_thinned(one.at, one.floats))
    if left_out:
        panel.remarks.append(f"{metric} is not drawn for runs without it: {', '.join(left_out)}.")
    return panel


def _thinned(at: Any, values: Floats) -> tuple[Floats, Floats]:
    """At most about 2,000 points, with the smallest and largest value of every slice."""
    cut = buckets(at, values, pixels=_MAX_POINTS)
    if cut.raw:
        return cut.first_step.astype(np.float64), cut.first
    low_first = (cut.min_step <= cut.max_step)[:, None]
    steps = np.stack([cut.min_step, cut.max_step], axis=1).astype(np.float64)
    pairs = np.stack([cut.min, cut.max], axis=1)
    return (
        np.where(low_first, steps, steps[:, ::-1]).reshape(-1),
        np.where(low_first, pairs, pairs[:, ::-1]).reshape(-1),
    )


def _draw(axes: Axes, panel: Panel, *, is_log: bool) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    if is_log:
        axes.set_yscale("log", nonpositive="mask")
    for index, line in panel.lines.items():
        colour = _COLOURS[index % len(_COLOURS)]
        dashes = _DASHES[index // len(_COLOURS) % len(_DASHES)]
        if line.raw is not None:
            axes.plot(*line.raw, color=colour, alpha=0.25, linewidth=0.6, zorder=1.5)
        if line.band is not None:
            axes.fill_between(line.x, *line.band, color=colour, alpha=0.2, linewidth=0, zorder=1.5)
        marker = "o" if line.x.size == 1 else ""
        axes.plot(
            line.x,
            line.y,
            color=colour,
            linestyle=dashes,
            label=_as_text(line.label),
            marker=marker,
        )
    axes.set_xlabel(_as_text(panel.axis.capitalize()))
    axes.set_ylabel(_as_text(panel.metric))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.margins(x=0.02)


def _draw_legend(figure: Figure, all_axes: Any, labels: dict[int, str], columns: int) -> None:
    """One legend for all panels, below them."""
    handles = {
        handle.get_label(): handle
        for axes in all_axes
        for handle in axes.get_legend_handles_labels()[0]
    }
    shown = [handles[_as_text(label)] for _, label in sorted(labels.items())]
    figure.legend(handles=shown, loc="outside lower center", ncols=columns)


def _names(runs: Sequence[RunView]) -> Iterator[str]:
    """The shortest kind of name that differs between all runs: name, project and name, or id."""
    infos = [run.info for run in runs]
    kinds = (
        [info.name for info in infos],
        [f"{info.project}/{info.name}" for info in infos],
        [info.id for info in infos],
    )
    names = next((names for names in kinds if len(set(names)) == len(names)), kinds[-1])
    for name in names:
        yield name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _as_text(label: str) -> str:
    """A label as matplotlib shows it unchanged: no formulas, no control characters."""
    shown = label if label.isprintable() else repr(label)[1:-1]
    # matplotlib leaves labels that begin with an underscore out of legends.
    return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")
