"""Learning-rate schedules: formulas, wrappers, their text form and their plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use
from epochal.torch.schedule.scheduler import Conversions, conversions

if TYPE_CHECKING:
    from epochal.torch.schedule.formulas import (
        WSD,
        ConstantLR,
        CosineScheduler,
        CyclicLR,
        ExponentialLR,
        InverseSqrt,
        LinearLR,
        MultiStepLR,
        OneCycleLR,
        StepDecay,
    )
    from epochal.torch.schedule.plateau import PlateauScheduler
    from epochal.torch.schedule.plot import draw_schedule
    from epochal.torch.schedule.scheduler import Scheduler
    from epochal.torch.schedule.text import format_schedule, parse_schedule
    from epochal.torch.schedule.token_plan import TokenBudget, token_budget
    from epochal.torch.schedule.wrappers import (
        Cooldown,
        GroupRates,
        PermanentReduction,
        ScaledLR,
        SequentialLR,
        TemporaryOverride,
        WarmupScheduler,
    )

__all__ = [
    "WSD",
    "ConstantLR",
    "Cooldown",
    "CosineScheduler",
    "CyclicLR",
    "ExponentialLR",
    "GroupRates",
    "InverseSqrt",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PermanentReduction",
    "PlateauScheduler",
    "ScaledLR",
    "Scheduler",
    "SequentialLR",
    "StepDecay",
    "TemporaryOverride",
    "TokenBudget",
    "WarmupScheduler",
    "draw_schedule",
    "format_schedule",
    "parse_schedule",
    "token_budget",
]

__getattr__ = on_first_use(
    __name__,
    {
        "formulas": [
            "WSD",
            "ConstantLR",
            "CosineScheduler",
            "CyclicLR",
            "ExponentialLR",
            "InverseSqrt",
            "LinearLR",
            "MultiStepLR",
            "OneCycleLR",
            "StepDecay",
        ],
        "plateau": ["PlateauScheduler"],
        "plot": ["draw_schedule"],
        "scheduler": ["Scheduler"],
        "text": ["format_schedule", "parse_schedule"],
        "token_plan": ["TokenBudget", "token_budget"],
        "wrappers": [
            "Cooldown",
            "GroupRates",
            "PermanentReduction",
            "ScaledLR",
            "SequentialLR",
            "TemporaryOverride",
            "WarmupScheduler",
        ],
    },
)


def _load_conversions() -> Conversions:
    from epochal.torch.schedule.catalogue import schedule_from, state_of, torch_schedule

    return Conversions(state_of, schedule_from, torch_schedule)


conversions.register(_load_conversions)
