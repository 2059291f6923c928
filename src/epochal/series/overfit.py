"""How far an evaluation is above the training loss, and when that means overfitting."""

from __future__ import annotations

import math
from typing import Literal

Grade = Literal["good", "warn", "bad"]

# In percent of the training loss: where dashboards of this kind turn amber, and red.
WARNS_ABOVE, ALARMS_ABOVE = 10.0, 25.0


def gap_percent(evaluated: float, train: float) -> float | None:
    """By how many percent of the training loss an evaluation's is above it; None if unknown.

    Nothing can be said of a training loss of 0, or of losses that are not finite.
    """
    if train == 0 or not math.isfinite(train) or not math.isfinite(evaluated):
        return None
    percent = 100 * (evaluated - train) / abs(train)
    return percent if math.isfinite(percent) else None


def gap_grade(percent: float) -> Grade:
    """How a gap is to be taken: good, warn above 10 %, bad above 25 %."""
    return "bad" if percent > ALARMS_ABOVE else "warn" if percent > WARNS_ABOVE else "good"
