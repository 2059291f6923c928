"""A schedule drawn with braille dots, for any UTF-8 terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from epochal.errors import UsageError
from epochal.torch.schedule.scheduler import Scheduler

_BLANK = 0x2800
# The bit of each dot of a braille character, by column and by row from the top.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_MOST_ASKED = 100_000

_Dot = tuple[int, int]


def draw_schedule(
    schedule: Scheduler, *, steps: int | None = None, width: int = 64, height: int = 12
) -> str:
    """Draw the rate over `steps` steps, the schedule's own length unless told.

    `width` and `height` are the plot's size in characters, axes not counted. A schedule of more
    than 100,000 steps is drawn from that many evenly spaced ones.
    """
    last = schedule.horizon() if steps is None else steps
    if last < 1 or width < 16 or height < 2:
        raise UsageError(
            f"steps, width and height must be at least 1, 16 and 2, got {last}, {width}, {height}."
        )
    asked = min(last, _MOST_ASKED)
    rates = [schedule.lr(last * i // asked) for i in range(asked + 1)]
    low, high = min(rates), max(rates)
    if not math.isfinite(high):
        raise UsageError(f"the rate is not finite within {last} steps; draw fewer of them.")
    lines = _canvas(_line(rates, low, high, right=2 * width - 1, top=4 * height - 1), width, height)
    return "\n".join(_with_axes(lines, low=low, high=high, last=last))


def _line(rates: list[float], low: float, high: float, *, right: int, top: int) -> Iterator[_Dot]:
    """The dots of the line through the rates, x from the left, y from below."""
    across, up = right / (len(rates) - 1), top / ((high - low) or 1)
    dots = [(round(i * across), round((rate - low) * up)) for i, rate in enumerate(rates)]
    for (x, y), (next_x, next_y) in pairwise(dots):
        length = max(next_x - x, abs(next_y - y), 1)
        for i in range(length + 1):
            yield x + round((next_x - x) * i / length), y + round((next_y - y) * i / length)


def _canvas(dots: Iterator[_Dot], width: int, height: int) -> list[str]:
    cells = [[_BLANK] * width for _ in range(height)]
    for x, y in dots:
        row, inside = divmod(4 * height - 1 - y, 4)
        cells[row][x // 2] |= _DOTS[x % 2][inside]
    return ["".join(chr(cell) for cell in row) for row in cells]


def _with_axes(lines: list[str], *, low: float, high: float, last: int) -> list[str]:
    marks = {0: f"{high:.4g}", len(lines) - 1: f"{low:.4g}"}
    margin = max(len(mark) for mark in marks.values())
    drawn = [f"{marks.get(i, ''):>{margin}} ┤{line}" for i, line in enumerate(lines)]
    width, steps = len(lines[0]), f"{last:,} steps"
    return [*drawn, f"{'':>{margin}} └{'─' * width}", f"{'':>{margin}}  0{steps:>{width - 1}}"]
