"""The rules that look at curves, steps and the clock."""

from __future__ import annotations

from epochal.health.rule import Rule
from epochal.health.rules.always_clipped import AlwaysClipped
from epochal.health.rules.clock_anomaly import ClockAnomaly
from epochal.health.rules.divergence import Divergence
from epochal.health.rules.eval_at_chance import EvalAtChance
from epochal.health.rules.eval_flat import EvalFlat
from epochal.health.rules.gradient_acceleration import GradientAcceleration
from epochal.health.rules.gradient_explosion import GradientExplosion
from epochal.health.rules.gradient_vanishing import GradientVanishing
from epochal.health.rules.loss_spike import LossSpike
from epochal.health.rules.lr_too_high import LearningRateTooHigh
from epochal.health.rules.never_fell import NeverFell
from epochal.health.rules.no_warmup import NoWarmup
from epochal.health.rules.nonfinite import NonFinite
from epochal.health.rules.overfitting import Overfitting
from epochal.health.rules.plateau import Plateau
from epochal.health.rules.repeated_data import RepeatedData
from epochal.health.rules.step_anomaly import StepAnomaly
from epochal.health.rules.too_good import TooGood

CURVE_RULES: tuple[type[Rule], ...] = (
    NonFinite,
    StepAnomaly,
    ClockAnomaly,
    LossSpike,
    Divergence,
    NeverFell,
    Plateau,
    GradientExplosion,
    GradientAcceleration,
    GradientVanishing,
    AlwaysClipped,
    NoWarmup,
    LearningRateTooHigh,
    Overfitting,
    EvalFlat,
    EvalAtChance,
    TooGood,
    RepeatedData,
)
