"""What planting a fault needs: a place, a limit, and a loop at the right pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import smoothed


class DoesNotFit(Exception):  # noqa: N818 (not an error: another run is drawn)
    """The run drawn cannot have this fault; draw another."""


Plant = Callable[[Sketch, Strengths], Fault]


@dataclass(frozen=True, slots=True)
class Sickness:
    """A class of faults: ``plant`` changes a sketch of ``rows`` rows; its docstring defines it."""

    rule: str
    plant: Plant
    rows: int = 2500

    @property
    def definition(self) -> str:
        """What exactly is planted."""
        return (self.plant.__doc__ or "").strip()


def require(condition: bool) -> None:
    """Ask for another run unless this one fits."""
    if not condition:
        raise DoesNotFit


def onset(sketch: Sketch, low: int, high: int) -> int:
    """A row between two, well away from the seam of a resumed run."""
    row = int(sketch.rng.integers(low, high))
    require(sketch.resume_at is None or sketch.resume_at < row - 200)
    return row


def fault(
    sketch: Sketch,
    rule: str,
    row: int,
    *,
    rows: int = 0,
    seconds: float = 0.0,
    names: tuple[str, ...] = (),
    at: float | None = None,
) -> Fault:
    """The truth: the fault shows from ``row`` on, or from the time ``at``."""
    return Fault(
        rule=rule,
        onset_row=row,
        onset_step=int(sketch.steps[row]),
        onset_t=float(sketch.t()[row]) if at is None else at,
        limit_rows=rows,
        limit_s=seconds,
        names=names,
    )


def lift_evaluations(sketch: Sketch, row: int, lift: Column) -> None:
    """Multiply the evaluation losses from a row on, where they then stand at what it was there."""
    if sketch.evals is None:
        return
    late = sketch.evals.at >= row
    before = sketch.evals.loss[~late]
    if late.any() and len(before):
        sketch.evals.loss[late] = before[-1] * lift[sketch.evals.at[late]]


def raise_loss(sketch: Sketch, row: int, up: Column, *, by: float, width: int = 51) -> Column:
    """Hold the loss at its level of a row and raise it by a share, twice as noisy in the end.

    ``up`` says how far it is, 0 to 1. Evaluations rise with it. Returns what losses were raised by.
    """
    smooth = smoothed(sketch.loss, width)
    rough = sketch.loss / smooth - 1
    level = np.where(np.arange(sketch.rows) >= row, smooth[row], smooth)
    lift = 1 + by * up
    sketch.loss = level * lift * (1 + rough * (1 + up))
    lift_evaluations(sketch, row, lift)
    return lift


def harm(sketch: Sketch, row: int, *, length: float, strengths: Strengths) -> None:
    """Let the loss suffer from a row on: it gains nothing more and rises, beyond its noise.

    No further than to its start, and not twofold: rises like these are other classes.
    """
    require(sketch.falls and not sketch.is_noisy)
    rise = max(within(sketch.rng, *strengths.harm), 5 * sketch.relative_noise())
    smooth = smoothed(sketch.loss, 51)
    require(rise <= strengths.harm[1])
    require(row == 0 or float(smooth[row]) * (1 + rise) < 0.9 * float(smooth[0]))
    raise_loss(sketch, row, ramp(sketch.rows, since=row, length=length), by=rise)


def soon(sketch: Sketch) -> int:
    """Rows of 20 steps; where records are sparse, three of them."""
    return max(20 // sketch.every, 3)


def set_pace(sketch: Sketch, *, low_ms: float, high_ms: float) -> None:
    """Give one record's steps a length in this range, so that minutes are not too many rows."""
    wanted = sketch.rng.uniform(low_ms, high_ms) / sketch.every
    sketch.step_ms *= wanted / float(np.median(sketch.step_ms))
    sketch.phases = None


def ramp(rows: int, *, since: int, length: float) -> Column:
    """0 before ``since``, then linear to 1 within ``length`` rows."""
    return np.clip((np.arange(rows) - since + 1) / max(1.0, length), 0.0, 1.0)


def row_of(sketch: Sketch, t: float) -> int:
    """The first row written at ``t`` or later."""
    row = int(np.searchsorted(sketch.t(), t))
    require(row < sketch.rows)
    return row
