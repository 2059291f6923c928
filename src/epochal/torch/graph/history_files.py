"""The history of a graph in files: a page of curves, CSV, and a log for people.

The lines of the page are SVG, so they are drawn without a script. A short script shows the values
under the pointer, and one curve alone when its name is clicked.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from epochal.atomic_file import new_text_file
from epochal.errors import UsageError
from epochal.format import format_duration, format_number
from epochal.series.eta import remaining_of
from epochal.torch.graph.observe import Points

_WIDTH, _HEIGHT = 900.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 12.0, 30.0
_COLOURS = (
    "#3b78e7", "#e5484d", "#2f9e62", "#d9730d", "#8e5bd6", "#0f9fb3",
    "#c2418c", "#7a8b00", "#5566cc", "#b3653a", "#3f7f6f", "#8a6d9c",
)  # fmt: skip
_LABELS = 5


def plot_html(path: str | Path, history: Mapping[str, Points], *, title: str) -> None:
    """Draw every metric over its epochs; what is not finite is a gap, and counted in the legend."""
    drawn = {name: points for name, points in history.items() if points.values}
    if not drawn:
        raise UsageError("There is nothing to draw yet: flush() makes the first points.")
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(drawn)}
    finite = [v for points in drawn.values() for v in points.values if math.isfinite(v)]
    scale = _Scale(
        epochs=max(points.flushes[-1] for points in drawn.values()),
        low=min(finite, default=0.0),
        high=max(finite, default=1.0),
    )
    body = "".join(_line(name, drawn[name], colours[name], scale) for name in drawn)
    legend = "".join(_entry(i, name, drawn[name], colours[name]) for i, name in enumerate(drawn))
    data = {
        "names": list(drawn),
        "flushes": [points.flushes for points in drawn.values()],
        "values": [[format_number(v) for v in points.values] for points in drawn.values()],
        "left": _LEFT,
        "span": _WIDTH - _LEFT - _RIGHT,
        "epochs": scale.epochs,
    }
    template = Path(__file__).with_name("curves.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=escape(title),
        axes="".join(_axes(scale)),
        lines=body,
        legend=legend,
        width=f"{_WIDTH:.0f}",
        height=f"{_HEIGHT:.0f}",
        # Inside a script only a closing tag could end the data.
        data=json.dumps(data).replace("<", "\\u003c"),
    )
    with new_text_file(path) as out:
        out.write(page)


class _Scale:
    """From epochs and values to places on the page."""

    def __init__(self, *, epochs: int, low: float, high: float) -> None:
        padding = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        if not math.isfinite(padding):
            padding = 0.0
        self.epochs = epochs
        self.low, self.high = low - padding, high + padding

    def x(self, epoch: int) -> float:
        """The place of an epoch, from 1."""
        share = (epoch - 1) / (self.epochs - 1) if self.epochs > 1 else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The place of a value; halves first, where the whole range has no number."""
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _line(name: str, points: Points, colour: str, scale: _Scale) -> str:
    path, pen = [], "M"
    dots = []
    for epoch, value in zip(points.flushes, points.values, strict=True):
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = scale.x(epoch), scale.y(value)
        path.append(f"{pen}{x:.1f},{y:.1f}")
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>')
        pen = "L"
    shown = dots if len(dots) <= 60 else dots[-1:]
    return (
        f'<g class="curve" style="--c:{colour}"><title>{escape(name)}</title>'
        f'<path d="{"".join(path)}"/>{"".join(shown)}</g>'
    )


def _entry(number: int, name: str, points: Points, colour: str) -> str:
    lost = sum(points.nonfinite)
    note = f" <i>{lost} not finite</i>" if lost else ""
    return (
        f'<button data-i="{number}" style="--c:{colour}"><b></b>{escape(name)} '
        f"<span>{escape(format_number(points.values[-1]))}</span>{note}</button>"
    )


def _axes(scale: _Scale) -> Iterator[str]:
    for index in range(_LABELS):
        share = index / (_LABELS - 1)
        value = scale.low * (1 - share) + scale.high * share
        y = scale.y(value)
        yield f'<path class="grid" d="M{_LEFT},{y:.1f}H{_WIDTH - _RIGHT}"/>'
        label = format_number(value)
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    stride = max(math.ceil(scale.epochs / 8), 1)
    for epoch in range(1, scale.epochs + 1, stride):
        yield (
            f'<text x="{scale.x(epoch):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{epoch}</text>'
        )


def write_table(path: str | Path, history: Mapping[str, Points]) -> None:
    """Write a row per epoch and a column per metric; an epoch without a point has an empty cell.

    Numbers are written so that reading them gives the same number back.
    """
    with new_text_file(path) as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["epoch", *history])
        for epoch, row in _rows(history):
            table.writerow([epoch, *(repr(row[name]) if name in row else "" for name in history)])


def write_epochs(
    path: str | Path,
    history: Mapping[str, Points],
    *,
    total_epochs: int,
    seconds: Sequence[float],
    first_timed: int,
) -> None:
    """Write a line per epoch; `seconds` are the durations from epoch `first_timed` on.

    The time left is estimated from the durations up to that line; a `total_epochs` of 0 leaves it
    out.
    """
    lines = ["# epochal training log"]
    width = len(str(total_epochs)) if total_epochs else 3
    for epoch, row in _rows(history):
        place = f"{epoch:{width}d}/{total_epochs}" if total_epochs else f"{epoch:3d}"
        figures = "".join(f"  {_one_line(k)}={format_number(v)}" for k, v in row.items())
        lines.append(f"epoch {place}{figures}{_times(epoch, total_epochs, seconds, first_timed)}")
    lines.append(f"# total: {format_duration(math.fsum(seconds))}")
    with new_text_file(path) as out:
        out.write("\n".join(lines) + "\n")


def _times(epoch: int, total: int, seconds: Sequence[float], first: int) -> str:
    done = seconds[: epoch - first + 1] if epoch >= first else []
    if not done:
        return ""
    left_s = remaining_of(done, total=total, done=epoch)
    eta = f"  ETA {format_duration(left_s)}" if left_s else ""
    return f"  [{format_duration(done[-1])}{eta}]"


def _rows(history: Mapping[str, Points]) -> list[tuple[int, dict[str, float]]]:
    rows: dict[int, dict[str, float]] = {}
    for name, points in history.items():
        for flush, value in zip(points.flushes, points.values, strict=True):
            rows.setdefault(flush, {})[name] = value
    return sorted(rows.items())


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
