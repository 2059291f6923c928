"""Every number the rules judge by, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from epochal.health.thresholds_curves import CurveThresholds
from epochal.health.thresholds_machine import MachineThresholds


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as wrong; windows are in logged points unless their name says otherwise."""

    curves: CurveThresholds = field(default_factory=CurveThresholds)
    machine: MachineThresholds = field(default_factory=MachineThresholds)

    # -- phase label ------------------------------------------------------------------------------
    # The first points of a run fall or jump for reasons of their own (warm-up of the rate, of the
    # optimizer's moments), and say nothing about where it is going.
    phase_warmup: int = 50
    # Two halves of fifty: long enough that their means differ by noise of a seventh of a deviation.
    phase_window: int = 100
    # A mean of fifty points strays by 0.14 deviations; two of them differ by more than 0.6
    # deviations about once in seven hundred comparisons.
    phase_deviations: float = 0.6
    # A slow fall needs more points to be seen in: the last half of the run, up to six hundred.
    phase_long_share: float = 0.5
    phase_long_window: int = 600
    # Standard errors of the difference of two means: three come by chance once in seven hundred.
    # What was falling goes on with half of them, or the word would change with every few points.
    phase_fall_errors: float = 3.0
    phase_stay_errors: float = 1.5
    # The fall has stopped where the newest points lack what it would have brought, beyond doubt.
    phase_stop_errors: float = 2.0
    # A rise must also undo a noticeable part of what was gained: otherwise it is a plateau's drift.
    phase_rise_share: float = 0.1
    # Noise this many times what it was through the run so far is no longer the same regime.
    phase_noise_ratio: float = 3.0
