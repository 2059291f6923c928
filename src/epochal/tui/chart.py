"""A chart in character cells: axes with round labels, curves, points, what is not finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.format import format_duration
from epochal.series.downsample import Buckets, buckets
from epochal.series.series import X
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import fit
from epochal.tui.scale import Scale, scale_of, tick_labels, ticks
from epochal.tui.view import Extent, Zoom

Dots = NDArray[np.bool_]

_BRAILLE = 0x2800
# The bit of each dot of a braille character, row by row; of the ASCII pair: upper 1, lower 2.
_BRAILLE_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_PAIR_BITS = np.array([[1], [2]])


class Canvas:
    """A rectangle of character cells; what is drawn later lies in front.

    Dots are counted from the upper left corner. In a cell that several curves pass, the dots of the
    foremost are shown alone: its course stays exact, and a cell has only one colour.
    """

    def __init__(self, columns: int, rows: int, *, glyphs: Glyphs) -> None:
        if columns < 1 or rows < 1:
            raise ValueError(f"a canvas has at least one cell, got {columns} by {rows}")
        self._columns, self._rows = columns, rows
        self._glyphs = glyphs
        self._bits = _BRAILLE_BITS if glyphs.has_braille else _PAIR_BITS
        self._tall, self._wide = (4, 2) if glyphs.has_braille else (2, 1)
        self._layers: list[tuple[Dots, str]] = []
        self._marks: dict[tuple[int, int], tuple[str, str]] = {}

    @property
    def width(self) -> int:
        """How many dots there are next to each other."""
        return self._columns * self._wide

    @property
    def height(self) -> int:
        """How many dots there are on top of each other."""
        return self._rows * self._tall

    def layer(self, style: str) -> Dots:
        """A new layer in front of the others, indexed by row and column of dots."""
        dots = np.zeros((self.height, self.width), dtype=np.bool_)
        self._layers.append((dots, style))
        return dots

    def mark(self, x: int, y: int, glyph: str, style: str) -> None:
        """Put a character into the cell of a dot, in front of everything."""
        self._marks[y // self._tall, x // self._wide] = (glyph, style)

    def lines(self) -> list[Text]:
        """The picture, one line for each row of cells."""
        codes = np.zeros((self._rows, self._columns), dtype=np.int64)
        owners = np.full((self._rows, self._columns), -1, dtype=np.int64)
        for index, (dots, _) in enumerate(self._layers):
            own = self._codes(dots)
            codes = np.where(own > 0, own, codes)
            owners = np.where(own > 0, index, owners)
        return [
            self._line(row, row_codes, row_owners)
            for row, (row_codes, row_owners) in enumerate(
                zip(codes.tolist(), owners.tolist(), strict=True)
            )
        ]

    def _codes(self, dots: Dots) -> NDArray[np.int64]:
        cells = dots.reshape(self._rows, self._tall, self._columns, self._wide)
        coded: NDArray[np.int64] = np.einsum("rtcw,tw->rc", cells, self._bits)
        return coded

    def _line(self, row: int, codes: Sequence[int], owners: Sequence[int]) -> Text:
        line = Text()
        text, style = "", ""
        for column, (code, owner) in enumerate(zip(codes, owners, strict=True)):
            mark = self._marks.get((row, column))
            # A blank takes the style before it, so that a curve stays one span.
            own = mark or (self._glyph(code, owner), self._layers[owner][1] if code else style)
            if own[1] != style:
                line.append(text, style)
                text = ""
            text, style = text + own[0], own[1]
        return line.append(text, style)

    def _glyph(self, code: int, owner: int) -> str:
        if not code:
            return " "
        if self._glyphs.has_braille:
            return chr(_BRAILLE + code)
        is_front = owner == len(self._layers) - 1
        return (self._glyphs.dots if is_front else self._glyphs.dots_behind)[code - 1]


def draw_path(dots: Dots, xs: NDArray[np.int64], ys: NDArray[np.int64]) -> None:
    """Draw straight lines from point to point; each column gets every dot that the line passes."""
    dots[ys, xs] = True
    for x0, y0, x1, y1 in zip(xs[:-1], ys[:-1], xs[1:], ys[1:], strict=True):
        steps = max(abs(int(x1) - int(x0)), abs(int(y1) - int(y0)))
        if steps > 1:
            along = np.arange(1, steps) / steps
            rows = np.rint(y0 + (y1 - y0) * along).astype(np.int64)
            columns = np.rint(x0 + (x1 - x0) * along).astype(np.int64)
            dots[rows, columns] = True


Floats = NDArray[np.float64]

SMALLEST = (16, 4)
_ROWS_PER_TICK, _COLUMNS_PER_TICK = 4, 18
_OUTLIERS = (1.0, 99.0)  # percentiles beyond which values may leave the chart
_MARKS_PER_COLUMN = 0.25  # more points than this are drawn as a line
_NOTHING = "no points yet"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A series as it is drawn: ``x`` ascends; as ``points`` each value is a mark of its own."""

    name: str
    x: NDArray[np.float64] | NDArray[np.int64]
    values: Floats
    style: str
    shape: Literal["line", "points"] = "line"

    def within(self, low: float, high: float) -> Curve:
        """The part of it between two places, both included."""
        start = int(np.searchsorted(self.x, low, side="left"))
        stop = int(np.searchsorted(self.x, high, side="right"))
        return replace(self, x=self.x[start:stop], values=self.values[start:stop])


@dataclass(frozen=True, slots=True)
class Look:
    """How charts are drawn; ``x`` is what the axis counts, ``flagged`` places to point at."""

    x: X = "step"
    zoom: Zoom = field(default_factory=Zoom)
    is_log: bool = False
    clips_outliers: bool = False
    flagged: tuple[float, ...] = ()


def draw_chart(
    curves: Sequence[Curve], *, look: Look, columns: int, rows: int, glyphs: Glyphs
) -> list[Text]:
    """Exactly ``rows`` lines of ``columns``: the plot, and the labels of the x axis below it.

    The first curve lies in front, but points are always before lines.
    """
    extent = extent_of(curves, look.x)
    if extent is None or columns < SMALLEST[0] or rows < SMALLEST[1]:
        return _empty(columns, rows)
    low, high = look.zoom.window(extent)
    shown = [curve.within(low, high) for curve in curves]
    vertical = _vertical(shown, look)
    at = ticks(vertical, max(2, (rows - 2) // _ROWS_PER_TICK + 1))
    labels = tick_labels(at)
    margin = max((len(label) for label in labels), default=0)
    if margin > columns // 2:
        at, labels, margin = [], [], 0
    canvas = Canvas(columns - margin - 1, rows - 2, glyphs=glyphs)
    horizontal = scale_of(low, high)
    for curve in reversed(shown):
        _draw(canvas, curve, horizontal, vertical, glyphs=glyphs)
    # The upper end of the axis is the first row.
    row_of = {
        rows - 3 - int(row): label
        for row, label in zip(vertical.dots(np.array(at), rows - 2), labels, strict=True)
    }
    plotted = [
        Text.assemble(
            (f"{row_of.get(row, ''):>{margin}}", "dim"),
            (glyphs.tick if row in row_of else glyphs.wall, "dim"),
            drawn,
        )
        for row, drawn in enumerate(canvas.lines())
    ]
    foot = _foot(
        horizontal, look, is_point=low == high, margin=margin, columns=columns, glyphs=glyphs
    )
    return [fit(one, columns) for one in (*plotted, *foot)]


def extent_of(curves: Sequence[Curve], kind: X) -> Extent | None:
    """From where to where the curves go; None when none has a point."""
    filled = [curve.x for curve in curves if curve.x.size]
    if not filled:
        return None
    low = min(float(x[0]) for x in filled)
    return Extent(kind, low, max(float(x[-1]) for x in filled))


def place_text(at: float, kind: X) -> str:
    """A place on the x axis in words: a step, an epoch, tokens, a time of day, a duration."""
    if kind == "wall":
        try:
            return datetime.fromtimestamp(at).strftime("%H:%M:%S")
        except (OverflowError, ValueError, OSError):
            return "?"
    if kind == "relative":
        return format_duration(at)
    return f"{at:,.0f}" if abs(at) >= 1000 or at == int(at) else f"{at:.2f}"


def _empty(columns: int, rows: int) -> list[Text]:
    lines = [fit(Text(), columns) for _ in range(rows)]
    if rows > 0:
        lines[rows // 2] = fit(Text.assemble((_NOTHING.center(columns), "dim")), columns)
    return lines


def _vertical(curves: Sequence[Curve], look: Look) -> Scale:
    finite = [curve.values[np.isfinite(curve.values)] for curve in curves]
    values = np.concatenate([np.empty(0), *finite])
    is_log = look.is_log
    if is_log:
        positive = values[values > 0]
        # Where nothing is positive a logarithm has nothing to show.
        is_log, values = positive.size > 0, positive if positive.size else values
    if not values.size:
        return Scale(0.0, 1.0)
    if look.clips_outliers:
        low, high = np.percentile(values, _OUTLIERS)
        room = 0.0 if is_log else (high - low) / 20
        return scale_of(float(low - room), float(high + room), is_log=is_log)
    return scale_of(float(values.min()), float(values.max()), is_log=is_log)


def _draw(
    canvas: Canvas, curve: Curve, horizontal: Scale, vertical: Scale, *, glyphs: Glyphs
) -> None:
    """Draw one curve; of a long one every dot column shows its least and its greatest value."""
    if not curve.x.size:
        return
    cut = buckets(curve.x, curve.values, pixels=canvas.width)
    as_points = curve.shape == "points" and len(cut) <= canvas.width * _MARKS_PER_COLUMN
    as_points |= len(cut) == 1  # a line of one point cannot be seen
    x, y = (_course if cut.raw else _envelope)(cut)
    known = np.isfinite(y) & ((y > 0) | (not vertical.is_log))
    xs = horizontal.dots(x[known], canvas.width)
    ys = canvas.height - 1 - vertical.dots(y[known], canvas.height)
    if as_points:
        for at, height in zip(xs.tolist(), ys.tolist(), strict=True):
            canvas.mark(at, height, glyphs.mark, curve.style)
    else:
        dots = canvas.layer(curve.style)
        for stretch in np.split(np.arange(xs.size), _gaps(known)):
            if stretch.size:
                draw_path(dots, xs[stretch], ys[stretch])
    for at in horizontal.dots(_distinct(cut.nonfinite_steps), canvas.width).tolist():
        canvas.mark(at, 0, glyphs.nonfinite, "bad")


def _course(cut: Buckets) -> tuple[Floats, Floats]:
    return cut.first_step.astype(np.float64), cut.first


def _envelope(cut: Buckets) -> tuple[Floats, Floats]:
    """First, least, greatest and last of every slice, at the slice's own place."""
    # Of a slice one column wide the place of each point inside it cannot be seen.
    places = np.repeat(cut.first_step.astype(np.float64), 4)
    return places, np.stack([cut.first, cut.min, cut.max, cut.last], axis=1).reshape(-1)


def _gaps(known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where a path is broken, in places among the known points."""
    gaps: NDArray[np.intp] = np.unique(np.cumsum(known)[~known])
    return gaps


def _distinct(places: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
    return np.unique(places).astype(np.float64)


def _flagged(rule: list[str], horizontal: Scale, look: Look, *, glyphs: Glyphs) -> Text:
    """The rule of the axis, in pieces between the pointers."""
    inside = [at for at in look.flagged if horizontal.low <= at <= horizontal.high]
    places = set(horizontal.dots(np.array(inside, dtype=np.float64), len(rule)).tolist())
    return Text.assemble(
        *(
            (glyphs.pointer, "warn") if column in places else (piece, "dim")
            for column, piece in enumerate(rule)
        )
    )


def _foot(
    horizontal: Scale, look: Look, *, is_point: bool, margin: int, columns: int, glyphs: Glyphs
) -> tuple[Text, Text]:
    """The axis line, with pointers to what is flagged, and the labels below it."""
    kind = look.x
    room = columns - margin - 1
    middle = (horizontal.low + horizontal.high) / 2
    at = [middle] if is_point else ticks(horizontal, max(1, room // _COLUMNS_PER_TICK))
    if kind in ("wall", "relative"):
        labels = [place_text(value, kind) for value in at]
    else:
        labels = tick_labels(at)
    rule, text = [glyphs.rule] * room, [" "] * (room + margin + 1)
    free = 0
    places = horizontal.dots(np.array(at), room).tolist()
    for column, label in zip(places, labels, strict=True):
        start = min(max(column + margin + 1 - len(label) // 2, free), len(text) - len(label))
        if start < free:
            continue
        rule[column] = glyphs.foot
        text[start : start + len(label)] = label
        free = start + len(label) + 1
    name = kind if kind != "wall" else "time"
    if free + len(name) + 1 <= len(text):
        text[len(text) - len(name) :] = name
    axis = Text.assemble(
        (f"{' ' * margin}{glyphs.corner}", "dim"), _flagged(rule, horizontal, look, glyphs=glyphs)
    )
    below = Text.assemble(("".join(text), "dim"))
    assert axis.cell_len == below.cell_len == columns
    return axis, below
