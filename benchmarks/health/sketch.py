"""A run as columns: what families draw, faults change, and `render.py` writes down.

One row is one step record of rank 0, so that a fault is a change of some rows and the truth about
it stays known. Tracks are what a run may have beside its curve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Rows = NDArray[np.int64]
Style = Literal["step", "metrics"]
START_T = 1_700_000_000.0


@dataclass(slots=True)
class Evals:
    """Evaluations behind the rows ``at``; ``accuracy`` where the task has one."""

    at: Rows
    loss: Column
    accuracy: Column | None = None
    accuracy_name: str = "eval/accuracy"
    duration_s: float = 5.0


@dataclass(slots=True)
class Layers:
    """What a watched model tells at the rows ``at``, one column per parameter.

    NaN stands for a figure that is not there, as the gradient of a weight nobody trains.
    """

    at: Rows
    names: tuple[str, ...]
    params: Column
    grads: Column
    zeros: Column
    ratios: Column


@dataclass(slots=True)
class Experts:
    """Router load at the rows ``at``: (rows, layers, experts) shares that sum to 1 per layer."""

    at: Rows
    top_k: int
    load: Column
    entropy: Column  # of the router, 0 to 1
    aux_loss: Column


@dataclass(slots=True)
class Phases:
    """Milliseconds per step by phase, at the rows ``at``; one mapping per rank that tells."""

    at: Rows
    every: int  # rows that one record covers
    by_rank: dict[int, dict[str, Column]]


@dataclass(slots=True)
class Machine:
    """One GPU and its host, every ``period_s`` seconds from the start on."""

    t: Column
    period_s: float
    util: Column
    clock: Column
    max_clock: float
    power_w: Column
    power_limit_w: float
    temperature: Column
    throttle: list[str]
    dram_used: Column
    dram_total: float
    rss: Column
    ram_used: Column
    ram_total: float
    cpu: Column


@dataclass(slots=True)
class Replicas:
    """The other ranks of a data-parallel run, at the rows ``at``; a column is a rank from 1 on.

    ``weight_norm`` is of every rank, rank 0 first, where ranks tell their weights.
    """

    at: Rows
    loss: Column
    step_ms: Column
    weight_norm: Column | None = None


@dataclass(slots=True)
class Sketch:
    """A run's rows and tracks; `t` follows from how long its steps and pauses took."""

    family: str
    rng: np.random.Generator
    loss: Column
    lr: Column
    norm: Column
    step_ms: Column
    pause_s: Column
    every: int = 1  # steps between two step records
    place: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    style: Style = "step"
    names: tuple[str, str, str] = ("loss", "grad_norm", "lr")  # in the style "metrics"
    tokens: int = 8192  # of one step
    clip: float | None = None
    counts_pauses: bool = False  # whether the loop's own timer includes evaluations and saves
    rows_per_epoch: int | None = None
    resume_at: int | None = None  # the first row of the second attempt
    is_clean_stop: bool = True
    sol: Column | None = None
    evals: Evals | None = None
    layers: Layers | None = None
    experts: Experts | None = None
    phases: Phases | None = None
    machine: Machine | None = None
    has_machine: bool = False
    replicas: Replicas | None = None
    config: dict[str, Any] = field(default_factory=dict)
    falls: bool = True  # the loss is above zero and comes down for good
    is_noisy: bool = False  # tails so heavy that one row proves nothing
    clock_shift: Column | None = None  # what a wrong clock adds to the times written
    step_shift: Rows | None = None  # what a wrong counter adds to the steps written
    silent_after: int | None = None  # the last row; the machine is watched on
    silence_s: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.place):
            self.place = np.arange(len(self.loss))

    @property
    def rows(self) -> int:
        """How many step records rank 0 writes."""
        return len(self.loss)

    @property
    def steps(self) -> Rows:
        """The step of each row."""
        return self.place * self.every

    def t(self) -> Column:
        """When each row is written, in Unix seconds of a clock that is right."""
        return START_T + np.cumsum(self.step_ms * self.every / 1000.0 + self.pause_s)

    def noise_of_loss(self) -> float:
        """A robust width of the row-to-row noise."""
        return float(np.median(np.abs(np.diff(self.loss)))) * 1.05

    def relative_noise(self) -> float:
        """The same as a share of the loss it is of, since noise mostly shrinks with the loss."""
        middle = np.abs(self.loss[1:] + self.loss[:-1]) / 2
        shares = np.abs(np.diff(self.loss)) / np.maximum(middle, 1e-300)
        return float(np.median(shares)) * 1.05
