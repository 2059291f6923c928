"""Every number the rules judge by, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from epochal.health.thresholds_curves import CurveThresholds
from epochal.health.thresholds_machine import MachineThresholds
from epochal.health.thresholds_phase import PhaseThresholds


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as wrong; windows are in logged points unless their name says otherwise."""

    curves: CurveThresholds = field(default_factory=CurveThresholds)
    machine: MachineThresholds = field(default_factory=MachineThresholds)
    phase: PhaseThresholds = field(default_factory=PhaseThresholds)
