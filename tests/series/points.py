"""Series of points along steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epochal.series.series import Series


def points(steps: ArrayLike, values: ArrayLike) -> Series:
    at = np.asarray(steps, dtype=np.int64)
    return Series("loss", "step", 0, at, at.astype(np.float64), np.asarray(values, dtype=float))
