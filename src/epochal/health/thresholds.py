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
    # A rise must also undo a noticeable part of what was gained: otherwise it is a plateau's drift.
    phase_rise_share: float = 0.1
    # Noise this many times what it was through the run so far is no longer the same regime.
    phase_noise_ratio: float = 3.0
