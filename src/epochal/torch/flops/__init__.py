"""The work of a training in floating-point operations, and the speed the hardware allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.flops.calibration import Calibration, calibrate
    from epochal.torch.flops.count import CountedFlops, count_flops
    from epochal.torch.flops.estimate import SpeedOfLight, speed_of_light
    from epochal.torch.flops.formulas import Flops, Trained, flops_per_token

__all__ = [
    "Calibration",
    "CountedFlops",
    "Flops",
    "SpeedOfLight",
    "Trained",
    "calibrate",
    "count_flops",
    "flops_per_token",
    "speed_of_light",
]

__getattr__ = on_first_use(
    __name__,
    {
        "calibration": ["Calibration", "calibrate"],
        "count": ["CountedFlops", "count_flops"],
        "estimate": ["SpeedOfLight", "speed_of_light"],
        "formulas": ["Flops", "Trained", "flops_per_token"],
    },
)
